"""How long a broker leads while the coordination store is silent, by its own clock."""

from __future__ import annotations

import pytest

from sordini.broker.fencing import Fence
from tests.unit.broker.network.helpers import ListLog, StillClock
from tests.unit.broker.parts import Timers


class Terms:
    """Leaderships that keep what became of them."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def suspend(self) -> None:
        self.told.append("suspend")

    def resume(self) -> None:
        self.told.append("resume")

    def end_terms(self) -> None:
        self.told.append("end")


class Fenced:
    """A fence with its clock, timers and leaderships."""

    def __init__(self) -> None:
        self.terms, self.clock, self.timers, self.log = Terms(), StillClock(), Timers(), ListLog()
        self.fence = Fence(self.terms, self.clock, self.timers.call_later, self.log)

    def silent(self, ms: int) -> None:
        self.fence.silent(self.clock.monotonic_ms() + ms)

    def passed(self, ms: int) -> None:
        """Time passes, and timers that are due fire; those that are early fire, too, as they may."""
        self.clock.ms += ms
        self.timers.fire()


@pytest.fixture
def fenced() -> Fenced:
    return Fenced()


def test_a_broker_leads_on_until_its_session_may_be_over_and_not_longer(fenced: Fenced) -> None:
    fenced.silent(6_000)
    (timer,) = fenced.timers.waiting
    assert timer.seconds == 6
    fenced.passed(5_999)
    assert fenced.terms.told == [], "a timer that is early suspends nothing"
    fenced.passed(1)
    assert fenced.terms.told == ["suspend"]
    assert not fenced.timers.waiting


def test_a_store_that_answers_in_time_changes_nothing(fenced: Fenced) -> None:
    fenced.silent(6_000)
    fenced.fence.answers()
    fenced.passed(60_000)
    assert fenced.terms.told == []


def test_a_store_that_answers_later_in_the_same_session_gives_the_same_terms_back(fenced: Fenced) -> None:
    fenced.silent(6_000)
    fenced.passed(9_000)
    fenced.fence.answers()
    fenced.fence.answers()
    assert fenced.terms.told == ["suspend", "resume"]
    fenced.silent(6_000)
    fenced.passed(6_000)
    assert fenced.terms.told == ["suspend", "resume", "suspend"]


@pytest.mark.parametrize("passed_ms", [0, 9_000])
def test_the_end_of_the_session_ends_the_terms_and_the_waiting(fenced: Fenced, passed_ms: int) -> None:
    fenced.silent(6_000)
    fenced.passed(passed_ms)
    del fenced.terms.told[:]
    fenced.fence.over()
    fenced.passed(60_000)
    fenced.fence.answers()
    assert fenced.terms.told == ["end"], "there is nothing that could be resumed"


def test_a_process_that_was_stopped_for_longer_than_its_session_lived_stops_leading_at_once(fenced: Fenced) -> None:
    fenced.silent(-3_000)
    assert fenced.terms.told == ["suspend"]
    assert [fields["ms"] for _, fields in fenced.log.at("warning") if fields] == [0]


def test_a_second_silence_counts_from_what_was_heard_last(fenced: Fenced) -> None:
    fenced.silent(6_000)
    fenced.passed(4_000)
    fenced.silent(6_000)
    fenced.passed(4_000)
    assert fenced.terms.told == []
    fenced.passed(2_000)
    assert fenced.terms.told == ["suspend"]


def test_a_store_that_ends_no_session_suspends_nobody(fenced: Fenced) -> None:
    fenced.silent(6_000)
    fenced.fence.silent(None)
    fenced.passed(60_000)
    assert fenced.terms.told == []
