"""How much memory unfinished requests hold together."""

import pytest

from sordini.broker.network.memory import RequestMemory


class FakeHolder:
    """A connection that counts how often it was told to go on."""

    def __init__(self, memory):
        self.memory = memory
        self.held = 0
        self.bytes_received = 0
        self.requests = 0
        self.resumed = 0

    def resume_reading(self):
        self.resumed += 1

    def hold(self, count):
        before, self.held = self.held, count
        self.bytes_received += max(0, count - before)
        self.memory.change(self, before, count)


@pytest.fixture
def memory():
    return RequestMemory(1000)


def full(memory, count=3):
    """Holders of 500 bytes each that have asked to go on: the first has the pass, the others wait."""
    holders = [FakeHolder(memory) for _ in range(count)]
    for holder in holders:
        holder.hold(500)
    admitted = [memory.admit(holder) for holder in holders]
    assert admitted == [True] + [False] * (count - 1)
    return holders


def test_below_the_cap_everybody_goes_on(memory):
    holder = FakeHolder(memory)
    holder.hold(999)
    assert memory.admit(holder)
    assert memory.held_bytes == 999


def test_without_a_cap_everybody_goes_on():
    memory = RequestMemory(-1)
    holder = FakeHolder(memory)
    holder.hold(10**12)
    assert memory.admit(holder)


def test_at_the_cap_one_goes_on_and_the_others_wait(memory):
    first, second, third = full(memory)
    assert memory.waiting_count == 2
    first.hold(900)
    assert memory.admit(first), "until its request is complete"
    assert (second.resumed, third.resumed) == (0, 0)


def test_a_pass_ends_with_the_request_it_was_given_for(memory):
    first, second, third = full(memory)
    first.requests += 1
    assert not memory.admit(first)
    assert (first.resumed, second.resumed, third.resumed) == (0, 1, 0)
    assert memory.admit(second)
    assert not memory.admit(third)


def test_the_pass_of_one_that_dies_goes_to_the_longest_waiting(memory):
    holders = full(memory, count=5)
    holders[0].hold(0)
    assert [holder.resumed for holder in holders] == [0, 1, 0, 0, 0]
    assert memory.admit(holders[1])


def test_one_that_dies_while_it_waits_is_forgotten(memory):
    first, second, third = full(memory)
    second.hold(0)
    first.hold(0)
    assert second.resumed == 0
    assert third.resumed == 1
    assert memory.waiting_count == 0


def test_when_memory_is_free_again_all_of_them_go_on(memory):
    first, second, third = full(memory)
    first.hold(0)
    second.hold(0)
    assert memory.held_bytes == 500
    assert third.resumed >= 1
    assert memory.admit(third)


def test_a_pass_that_is_not_used_goes_to_the_next(memory):
    first, second, third = full(memory)
    first.hold(600)
    memory.tick()
    assert (first.resumed, second.resumed) == (0, 0), "it has received something since"
    memory.tick()
    assert (first.resumed, second.resumed, third.resumed) == (1, 1, 0)
    assert memory.admit(second)
    assert not memory.admit(first)
