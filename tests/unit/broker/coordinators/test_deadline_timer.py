"""One timer for all keys of a coordinator."""

from __future__ import annotations

import pytest

from sordini.broker.coordinators.deadline_timer import DRAIN_S, KEYS_AT_ONCE, LATE_MS, DeadlineTimer
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import Timers


class TimerBench:
    """A timer, its clock, and what it called."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.timers = Timers()
        self.called: list[tuple[str, int]] = []
        self.timer: DeadlineTimer[str] = DeadlineTimer(
            self.clock, self.timers.call_later, lambda key, late_ms: self.called.append((key, late_ms))
        )

    def schedule(self, key: str, in_ms: int) -> None:
        self.timer.schedule(key, self.clock.ms + in_ms)

    @property
    def waits(self) -> list[float]:
        return [timer.seconds for timer in self.timers.waiting]

    def advance(self, ms: int) -> None:
        self.clock.ms += ms
        self.timers.fire()


def test_there_is_one_timer_for_the_earliest_deadline() -> None:
    bench = TimerBench()
    bench.schedule("a", 500)
    bench.schedule("b", 300)
    bench.schedule("c", 900)
    assert bench.waits == [0.3]
    bench.advance(300)
    assert (bench.called, bench.waits) == ([("b", 0)], [0.2])


def test_a_key_is_called_once() -> None:
    bench = TimerBench()
    bench.schedule("a", 100)
    bench.advance(100)
    bench.advance(100)
    assert (bench.called, bench.waits) == ([("a", 0)], [])


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    bench = TimerBench()
    bench.schedule("a", 500)
    bench.schedule("a", 200)
    bench.schedule("a", 800)
    assert bench.waits == [0.2]
    bench.advance(200)
    bench.advance(40)
    assert bench.called == [("a", 0)]


def test_a_cancelled_key_is_not_called() -> None:
    bench = TimerBench()
    bench.schedule("a", 100)
    bench.schedule("b", 130)
    bench.timer.cancel("a")
    bench.advance(130)
    assert bench.called == [("b", 0)]


def test_a_small_delay_is_not_late() -> None:
    bench = TimerBench()
    bench.schedule("a", 100)
    bench.advance(100 + LATE_MS - 1)
    assert bench.called == [("a", LATE_MS - 1)]


def test_a_late_timer_lets_sockets_be_read_first_and_reports_its_lateness() -> None:
    bench = TimerBench()
    bench.schedule("a", 100)
    bench.schedule("b", 150)
    bench.advance(1_100)
    assert (bench.called, bench.waits) == ([], [DRAIN_S])
    bench.schedule("c", 10)
    assert bench.waits == [DRAIN_S]
    bench.advance(5)
    assert bench.called == [("a", 1_005), ("b", 955)]
    assert bench.waits == [0.005]


def test_a_deadline_set_by_a_call_is_not_due_in_the_same_iteration() -> None:
    bench = TimerBench()

    def again(key: str, _late_ms: int) -> None:
        bench.called.append((key, 0))
        bench.schedule(key, 0)

    bench.timer = DeadlineTimer(bench.clock, bench.timers.call_later, again)
    bench.schedule("a", 0)
    bench.timers.fire()
    assert bench.called == [("a", 0)]
    assert bench.waits == [0.0]


def test_keys_that_are_due_together_are_called_in_slices() -> None:
    bench = TimerBench()
    for number in range(2 * KEYS_AT_ONCE + 1):
        bench.schedule(f"key-{number:03}", 100)
    called = []
    for _ in range(3):
        bench.advance(0 if called else 100)
        called.append(len(bench.called))
    assert called == [KEYS_AT_ONCE, 2 * KEYS_AT_ONCE, 2 * KEYS_AT_ONCE + 1]
    assert len(set(bench.called)) == called[-1]
    assert not bench.waits


def test_a_call_that_raises_takes_no_other_key_with_it() -> None:
    clock, timers, called = StillClock(), Timers(), list[str]()

    def call(key: str, _late_ms: int) -> None:
        called.append(key)
        if key == "a":
            raise ValueError(key)

    timer: DeadlineTimer[str] = DeadlineTimer(clock, timers.call_later, call)
    for key in "abc":
        timer.schedule(key, clock.ms)
    with pytest.raises(ValueError, match="a"):
        timers.fire()
    timers.fire()
    assert called == ["a", "b", "c"]
    assert not timers.waiting
