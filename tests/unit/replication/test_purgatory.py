"""Answers that wait for partitions to grow."""

from __future__ import annotations

from sordini.replication.purgatory import DelayedOperation


class TopicIdPartition:
    """Something that can be waited in."""

    def __init__(self) -> None:
        self.purgatory: dict[DelayedOperation, None] = {}


def test_an_operation_completes_once_enough_bytes_have_arrived_in_all_its_logs() -> None:
    places, answers = [TopicIdPartition(), TopicIdPartition()], []
    waiter = DelayedOperation(10, places, lambda: answers.append("done"))
    waiter.grown(4)
    assert not answers
    waiter.grown(6)
    assert answers == ["done"]
    assert not any(place.purgatory for place in places)


def test_a_waiter_that_was_answered_is_not_answered_again() -> None:
    answers: list[str] = []
    waiter = DelayedOperation(1, [TopicIdPartition()], lambda: answers.append("done"))
    waiter.wake()
    waiter.wake()
    waiter.grown(5)
    assert answers == ["done"]


def test_a_waiter_that_left_is_never_answered() -> None:
    place, answers = TopicIdPartition(), []
    waiter = DelayedOperation(1, [place], lambda: answers.append("done"))
    waiter.leave()
    waiter.grown(5)
    assert not answers
    assert not place.purgatory
