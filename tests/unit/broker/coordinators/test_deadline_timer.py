"""One timer for all groups."""

from __future__ import annotations

from sordini.broker.coordinators.deadline_timer import DRAIN_S, LATE_MS, DueTimer
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import Timers


class Desk:
    """A timer, its clock, and what it called."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.timers = Timers()
        self.called: list[tuple[str, int]] = []
        self.timer: DueTimer[str] = DueTimer(
            self.clock, self.timers.call_later, lambda key, late_ms: self.called.append((key, late_ms))
        )

    def enter(self, key: str, in_ms: int) -> None:
        self.timer.enter(key, self.clock.ms + in_ms)

    @property
    def waits(self) -> list[float]:
        return [timer.seconds for timer in self.timers.waiting]

    def pass_time(self, ms: int) -> None:
        self.clock.ms += ms
        self.timers.fire()


def test_there_is_one_timer_for_the_earliest_deadline() -> None:
    desk = Desk()
    desk.enter("a", 500)
    desk.enter("b", 300)
    desk.enter("c", 900)
    assert desk.waits == [0.3]
    desk.pass_time(300)
    assert (desk.called, desk.waits) == ([("b", 0)], [0.2])


def test_a_key_is_called_once() -> None:
    desk = Desk()
    desk.enter("a", 100)
    desk.pass_time(100)
    desk.pass_time(100)
    assert (desk.called, desk.waits) == ([("a", 0)], [])


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    desk = Desk()
    desk.enter("a", 500)
    desk.enter("a", 200)
    desk.enter("a", 800)
    assert desk.waits == [0.2]
    desk.pass_time(200)
    desk.pass_time(40)
    assert desk.called == [("a", 0)]


def test_a_cancelled_key_is_not_called() -> None:
    desk = Desk()
    desk.enter("a", 100)
    desk.enter("b", 130)
    desk.timer.forget("a")
    desk.pass_time(130)
    assert desk.called == [("b", 0)]


def test_a_small_delay_is_not_late() -> None:
    desk = Desk()
    desk.enter("a", 100)
    desk.pass_time(100 + LATE_MS - 1)
    assert desk.called == [("a", LATE_MS - 1)]


def test_a_late_timer_lets_sockets_be_read_first_and_reports_its_lateness() -> None:
    desk = Desk()
    desk.enter("a", 100)
    desk.enter("b", 150)
    desk.pass_time(1_100)
    assert (desk.called, desk.waits) == ([], [DRAIN_S])
    desk.enter("c", 10)
    assert desk.waits == [DRAIN_S]
    desk.pass_time(5)
    assert desk.called == [("a", 1_005), ("b", 955)]
    assert desk.waits == [0.005]


def test_a_deadline_set_by_a_call_is_not_due_in_the_same_iteration() -> None:
    desk = Desk()

    def again(key: str, _late_ms: int) -> None:
        desk.called.append((key, 0))
        desk.enter(key, 0)

    desk.timer = DueTimer(desk.clock, desk.timers.call_later, again)
    desk.enter("a", 0)
    desk.timers.fire()
    assert desk.called == [("a", 0)]
    assert desk.waits == [0.0]
