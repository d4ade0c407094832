"""How much memory unfinished requests hold together, and which connections are closed for it."""

import random

import pytest

from sordini.broker.network.memory import ADMITTED_BYTES_MAX, REFILL_TICKS, SILENT_TICKS, RequestMemory

KIB, MIB = 1024, 1024 * 1024
LARGE = 100 * MIB


class FakeHolder:
    """A connection that counts how often it was admitted."""

    def __init__(self, memory):
        self.memory = memory
        self.held = 0
        self.bytes_received = 0
        self.requests = 0
        self.resumed = 0
        self.is_awaited = True
        self.is_shed = False

    def resume_reading(self):
        self.resumed += 1

    def shed(self, _reason):
        assert not self.is_shed, "closed twice"
        self.is_shed = True
        self.hold(0)

    def hold(self, count):
        before, self.held = self.held, count
        self.bytes_received += max(0, count - before)
        self.memory.change(self, before, count)

    def admitted(self, declared=LARGE):
        """Ask to go on, as a connection does after each receive."""
        self.is_awaited = self.memory.admit(self, declared)
        return self.is_awaited


@pytest.fixture
def memory():
    return RequestMemory(1000)


def full(memory, count=3, size=500):
    """Holders that wait for admission: the first is admitted, the others wait."""
    holders = [FakeHolder(memory) for _ in range(count)]
    for holder in holders:
        holder.hold(size)
    admitted = [holder.admitted() for holder in holders]
    assert admitted == [True] + [False] * (count - 1)
    return holders


def ticks(memory, count):
    for _ in range(count):
        memory.tick()


def test_below_the_cap_every_connection_is_admitted(memory):
    holder = FakeHolder(memory)
    holder.hold(999)
    assert holder.admitted()
    assert memory.held_bytes == 999


def test_without_a_cap_every_connection_is_admitted_and_nothing_is_recorded():
    memory = RequestMemory(-1)
    holder = FakeHolder(memory)
    holder.hold(10**12)
    assert holder.admitted()
    ticks(memory, 100)
    assert not holder.is_shed
    assert not memory._shares


def test_at_the_cap_one_connection_is_admitted_and_the_others_wait(memory):
    first, second, third = full(memory)
    assert memory.waiting_count == 2
    first.hold(900)
    assert first.admitted(), "until its request is complete"
    assert (second.resumed, third.resumed) == (0, 0)


def test_at_the_cap_a_frame_of_a_mebibyte_is_admitted_and_a_larger_one_waits(memory):
    full(memory)
    small = FakeHolder(memory)
    small.hold(10)
    assert small.admitted(ADMITTED_BYTES_MAX)
    assert small.admitted(0), "its length is not known yet"
    assert not small.admitted(ADMITTED_BYTES_MAX + 1)


def test_a_pass_ends_with_the_request_it_was_given_for(memory):
    first, second, third = full(memory)
    first.requests += 1
    assert not first.admitted()
    assert (first.resumed, second.resumed, third.resumed) == (0, 1, 0)
    assert second.admitted()
    assert not third.admitted()


def test_a_pass_ends_with_its_request_also_when_small_requests_follow(memory):
    first, second, _ = full(memory)
    first.requests += 1
    assert first.admitted(100)
    assert second.resumed == 1
    assert second.admitted()


def test_the_pass_of_a_closed_connection_goes_to_the_longest_waiting(memory):
    holders = full(memory, count=5, size=300)
    holders[0].hold(0)
    assert [holder.resumed for holder in holders] == [0, 1, 0, 0, 0]
    assert holders[1].admitted()


def test_a_connection_that_closes_while_it_waits_is_forgotten(memory):
    first, second, third = full(memory)
    second.hold(0)
    first.hold(0)
    assert second.resumed == 0
    assert third.resumed == 1
    assert memory.waiting_count == 0


def test_when_memory_is_free_again_every_connection_is_admitted(memory):
    first, second, third = full(memory)
    first.hold(0)
    second.hold(0)
    assert memory.held_bytes == 500
    assert third.resumed >= 1
    assert third.admitted()


def test_a_pass_that_is_hardly_used_goes_to_the_next():
    memory = RequestMemory(10 * MIB)
    first, second, third = full(memory, size=4 * MIB)
    memory.tick()
    assert second.resumed == 0, "the pass is younger than a tick"
    first.hold(4 * MIB + 64 * KIB)
    memory.tick()
    assert second.resumed == 0, "it has received enough since"
    first.hold(4 * MIB + 65 * KIB)
    memory.tick()
    assert (first.resumed, second.resumed, third.resumed) == (0, 1, 0)
    assert second.admitted()
    assert not first.admitted()


def test_at_the_cap_those_that_send_nothing_are_closed_and_no_more_of_them_than_is_needed():
    memory = RequestMemory(10 * MIB)
    hoarders = [FakeHolder(memory) for _ in range(5)]
    for holder in hoarders:
        holder.hold(2 * MIB)
    ticks(memory, SILENT_TICKS)  # In the first of them the bytes arrived.
    assert memory.connections_shed == 0
    ticks(memory, 1)
    assert memory.connections_shed == 3, "until half of the memory is free"
    assert memory.held_bytes == 4 * MIB


def test_below_the_cap_the_slowest_are_left_alone():
    memory = RequestMemory(10 * MIB)
    holder = FakeHolder(memory)
    holder.hold(9 * MIB)
    ticks(memory, 100)
    assert not holder.is_shed


def test_at_the_cap_one_that_trickles_is_closed_before_one_that_sends():
    memory = RequestMemory(10 * MIB)
    trickler, honest = FakeHolder(memory), FakeHolder(memory)
    trickler.hold(9 * MIB)
    honest.hold(1 * MIB)
    for _ in range(REFILL_TICKS):
        trickler.hold(trickler.held + 10)
        honest.hold(honest.held + 40 * KIB)
        memory.tick()
    assert (trickler.is_shed, honest.is_shed) == (True, False)


def test_what_the_broker_itself_keeps_waiting_is_not_judged_by_time(memory):
    waiting = full(memory)[1:]
    ours = FakeHolder(memory)
    ours.hold(400)
    ours.is_awaited = False  # Its requests wait for this broker's answers.
    ticks(memory, SILENT_TICKS + REFILL_TICKS)
    assert not ours.is_shed
    assert not any(holder.is_shed for holder in waiting if not holder.resumed)


def test_after_a_stall_of_the_loop_nothing_is_judged(memory):
    holder = FakeHolder(memory)
    holder.hold(1000)
    for _ in range(10 * SILENT_TICKS):
        memory.tick(may_judge=False)
    assert not holder.is_shed


def test_past_the_slack_the_least_progressing_is_closed_at_once():
    memory = RequestMemory(10 * MIB)
    old = [FakeHolder(memory) for _ in range(20)]
    for holder in old:
        holder.hold(900 * KIB)
        assert holder.admitted(ADMITTED_BYTES_MAX)
    assert memory.held_bytes <= 10 * MIB + memory.slack_bytes
    memory.tick()
    fresh = FakeHolder(memory)
    fresh.hold(1000 * KIB)
    assert not fresh.is_shed
    assert memory.connections_shed
    assert memory.held_bytes <= 10 * MIB


# A simulation: peers with socket buffers against the account, in rounds.

CAP, REQUEST_MAX, RECEIVE = 6 * MIB, 8 * MIB, 64 * KIB
ROUNDS_PER_TICK = 20


class SimPeer(FakeHolder):
    """A peer that sends frames of one size at `rate` bytes a round, `sent_max` bytes of each at most."""

    def __init__(self, memory, frame, rate, sent_max=None):
        super().__init__(memory)
        self.frame, self.rate, self.sent_max = frame, rate, frame if sent_max is None else sent_max
        self.frame_bytes = 0  # Received of the frame under way.
        self.sent = 0
        self.rounds = 0
        self.longest = 0

    def resume_reading(self):
        self.is_awaited = True

    def round(self):
        """The peer sends, and the broker receives once, as far as it reads."""
        if self.is_shed:
            return
        self.rounds += 1
        self.longest = max(self.longest, self.rounds)
        self.sent = min(self.sent_max, self.sent + self.rate)
        if not self.is_awaited:
            return
        count = min(RECEIVE, self.sent - self.frame_bytes)
        if not count:
            return
        self.frame_bytes += count
        if self.frame_bytes < self.frame:
            self.hold(self.frame_bytes)
            if not self.is_shed:
                self.admitted(self.frame)
            return
        self.requests += 1
        self.bytes_received += count
        self.frame_bytes = self.sent = self.rounds = 0
        self.hold(0)
        self.is_awaited = True


def crowd(chance, memory):
    """Hoarders of every kind, and honest peers of small and large requests."""
    hoarders = [
        SimPeer(memory, chance.randrange(2 * KIB, REQUEST_MAX), chance.choice([1, 100, KIB, RECEIVE]))
        for _ in range(chance.randrange(25))
    ]
    for hoarder in hoarders:
        hoarder.sent_max = chance.randrange(1, hoarder.frame)
    small = [SimPeer(memory, chance.randrange(1, MIB), chance.randrange(20 * KIB, RECEIVE)) for _ in range(4)]
    large = [SimPeer(memory, chance.randrange(2 * MIB, REQUEST_MAX), RECEIVE) for _ in range(4)]
    return hoarders, small, large


@pytest.mark.parametrize("seed", range(8))
def test_whatever_hoarders_do_memory_is_bounded_and_honest_requests_are_finished(seed):
    chance = random.Random(seed)
    memory = RequestMemory(CAP)
    hoarders, small, large = crowd(chance, memory)
    connections = hoarders + small + large
    for count in range(4000):
        chance.shuffle(connections)
        for peer in connections:
            peer.round()
            assert memory.held_bytes <= CAP + memory.slack_bytes + REQUEST_MAX
            assert memory.held_bytes == sum(share.held for share in memory._shares.values())
            assert not memory.waiting_count or memory._passed is not None
        assert all(peer.is_awaited for peer in small)
        if count % ROUNDS_PER_TICK == 0:
            memory.tick()
        if count > 200 and all(peer.requests >= 2 for peer in large):
            break
    assert not any(peer.is_shed for peer in small + large)
    assert all(peer.requests >= 2 for peer in large)
    for peer in small:
        assert peer.longest <= 1 + MIB // (20 * KIB), "no round in which it was made to wait"


def test_peers_that_only_hold_memory_do_not_block_one_another_forever():
    memory = RequestMemory(CAP)
    hoarders = [SimPeer(memory, REQUEST_MAX, RECEIVE, sent_max=3 * MIB) for _ in range(20)]
    for count in range(2000):
        for peer in hoarders:
            peer.round()
        if count % ROUNDS_PER_TICK == 0:
            memory.tick()
    assert memory.held_bytes < CAP
    assert memory.waiting_count == 0


def test_past_the_slack_a_large_frame_is_closed_before_a_small_one_that_progresses_less():
    memory = RequestMemory(4 * MIB)
    first, small, large = FakeHolder(memory), FakeHolder(memory), FakeHolder(memory)
    first.hold(4 * MIB)
    first.admitted()  # It has the pass.
    small.hold(900 * KIB)
    small.admitted(ADMITTED_BYTES_MAX)
    memory.tick()
    memory.tick()
    small.hold(901 * KIB)
    small.admitted(ADMITTED_BYTES_MAX)
    large.hold(4 * MIB)
    large.admitted()
    memory.tick()
    large.hold(5 * MIB)  # Arrives faster than the small one.
    large.admitted()
    others = [FakeHolder(memory) for _ in range(3)]
    for holder in others:
        holder.hold(900 * KIB)
        holder.admitted(ADMITTED_BYTES_MAX)
    assert (large.is_shed, small.is_shed) == (True, False)


def test_one_that_was_silent_and_now_waits_for_the_broker_is_not_closed_for_its_silence():
    memory = RequestMemory(10 * MIB)
    holder = FakeHolder(memory)
    holder.hold(6 * MIB)
    ticks(memory, SILENT_TICKS + 1)
    holder.is_awaited = False
    other = FakeHolder(memory)
    other.hold(5 * MIB)
    memory.tick()
    assert not holder.is_shed
