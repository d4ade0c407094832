"""Answers that wait for partitions to grow."""

from __future__ import annotations

from sordini.replication.purgatory import Waiter


class Place:
    """Something that can be waited in."""

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}


def test_a_waiter_answers_once_enough_has_come_from_all_its_places() -> None:
    places, answers = [Place(), Place()], []
    waiter = Waiter(10, places, lambda: answers.append("done"))
    waiter.grown(4)
    assert not answers
    waiter.grown(6)
    assert answers == ["done"]
    assert not any(place.waiters for place in places)


def test_a_waiter_that_was_answered_is_not_answered_again() -> None:
    answers: list[str] = []
    waiter = Waiter(1, [Place()], lambda: answers.append("done"))
    waiter.wake()
    waiter.wake()
    waiter.grown(5)
    assert answers == ["done"]


def test_a_waiter_that_left_is_never_answered() -> None:
    place, answers = Place(), []
    waiter = Waiter(1, [place], lambda: answers.append("done"))
    waiter.leave()
    waiter.grown(5)
    assert not answers
    assert not place.waiters
