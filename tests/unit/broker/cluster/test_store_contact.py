"""What a broker knows of its contact with the coordination store, by its own clock."""

from __future__ import annotations

import pytest

from sordini.broker.cluster.store_contact import ContactState, StoreContact
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import Timers

SESSION_MS = 6_000


class Contacted:
    """A contact with its clock, timers and log lines."""

    def __init__(self) -> None:
        self.clock, self.timers, self.log = StillClock(), Timers(), ListLog()
        self.contact = StoreContact(self.clock, self.timers.call_later, self.log)

    def silent(self, ms: int = SESSION_MS) -> None:
        """The connection is lost, and the session times out after this."""
        self.contact.disconnected(self.clock.monotonic_ms() + ms)

    def passed(self, ms: int) -> None:
        """Time passes, and timers that are due fire; those that are early fire, too, as they may."""
        self.clock.ms += ms
        self.timers.fire()

    def seen(self) -> tuple[ContactState, bool, int]:
        return self.contact.state, self.contact.is_doubtful, self.contact.silent_ms


@pytest.fixture
def contacted() -> Contacted:
    return Contacted()


def test_the_session_is_doubtful_once_the_session_timeout_has_passed_and_not_before(contacted: Contacted) -> None:
    assert contacted.seen() == (ContactState.ANSWERS, False, 0)
    contacted.silent()
    (timer,) = contacted.timers.waiting
    assert timer.seconds == SESSION_MS / 1000
    contacted.passed(SESSION_MS - 1)
    assert contacted.seen() == (ContactState.SILENT, False, SESSION_MS - 1), "an early timer changes nothing"
    contacted.passed(1)
    assert contacted.seen() == (ContactState.DOUBTFUL, True, SESSION_MS)
    assert not contacted.timers.waiting
    contacted.passed(600_000)
    assert contacted.seen() == (ContactState.DOUBTFUL, True, SESSION_MS + 600_000)
    assert len(contacted.log.at("warning")) == 2, "one line for the silence and one for the doubt, however long"


@pytest.mark.parametrize(("passed_ms", "lines"), [(5_999, 1), (60_000, 2)])
def test_an_answer_in_the_same_session_ends_silence_and_doubt_with_a_line_that_says_how_long(
    contacted: Contacted, passed_ms: int, lines: int
) -> None:
    contacted.silent()
    contacted.passed(passed_ms)
    contacted.contact.connected()
    contacted.contact.connected()
    assert contacted.seen() == (ContactState.ANSWERS, False, 0)
    assert len(contacted.log.at("warning")) == lines
    assert [fields for _, fields in contacted.log.at("info")] == [{"silent_ms": passed_ms}]
    contacted.passed(60_000)
    assert contacted.seen() == (ContactState.ANSWERS, False, 0), "no timer is left"


@pytest.mark.parametrize("passed_ms", [0, 9_000])
def test_after_the_end_of_the_session_the_registration_is_awaited_and_not_the_connection(
    contacted: Contacted, passed_ms: int
) -> None:
    contacted.silent()
    contacted.passed(passed_ms)
    contacted.contact.expired()
    contacted.contact.connected()
    contacted.passed(1_000)
    assert contacted.seen() == (ContactState.EXPIRED, True, passed_ms + 1_000)
    contacted.silent()
    contacted.contact.connected()
    assert contacted.seen() == (ContactState.EXPIRED, True, passed_ms + 1_000), (
        "a new session that is slow is still none"
    )
    contacted.contact.registered()
    contacted.contact.registered()
    assert contacted.seen() == (ContactState.ANSWERS, False, 0)
    assert [fields for _, fields in contacted.log.at("info")] == [{"silent_ms": passed_ms + 1_000}]


def test_a_session_that_ends_without_a_silence_before_is_doubtful_until_the_registration(contacted: Contacted) -> None:
    contacted.contact.expired()
    assert contacted.seen() == (ContactState.EXPIRED, True, 0)
    contacted.passed(700)
    assert contacted.contact.silent_ms == 700
    contacted.contact.registered()
    assert contacted.seen() == (ContactState.ANSWERS, False, 0)


def test_a_connection_lost_right_behind_the_registration_is_a_silence_of_the_new_session(contacted: Contacted) -> None:
    contacted.contact.expired()
    contacted.silent()
    contacted.contact.registered()
    assert contacted.seen() == (ContactState.SILENT, False, 0)
    contacted.passed(SESSION_MS)
    assert contacted.seen() == (ContactState.DOUBTFUL, True, SESSION_MS)


def test_a_process_that_was_stopped_for_longer_than_its_session_lived_doubts_at_once(contacted: Contacted) -> None:
    contacted.silent(-3_000)
    assert contacted.contact.state is ContactState.DOUBTFUL
    assert contacted.log.at("warning")[0][1] == {"session_expires_in_ms": 0}


def test_a_second_silence_counts_from_the_last_answer(contacted: Contacted) -> None:
    contacted.silent()
    contacted.passed(4_000)
    contacted.contact.connected()
    contacted.silent()
    contacted.passed(4_000)
    assert contacted.seen() == (ContactState.SILENT, False, 4_000)
    contacted.passed(2_000)
    assert contacted.contact.state is ContactState.DOUBTFUL


def test_a_store_that_ends_no_session_is_never_silent_or_doubtful(contacted: Contacted) -> None:
    contacted.contact.disconnected(None)
    contacted.passed(60_000)
    contacted.contact.connected()
    assert contacted.seen() == (ContactState.ANSWERS, False, 0)
    assert not contacted.log.lines


def test_the_lines_say_what_goes_on_and_what_waits(contacted: Contacted) -> None:
    contacted.silent()
    contacted.passed(SESSION_MS)
    contacted.contact.expired()
    contacted.contact.registered()
    silent, doubtful, expired = (event for event, _ in contacted.log.at("warning"))
    assert "acks=all and groups continue" in silent
    assert "in-sync sets, leaders, topics and settings wait" in silent
    assert "leading in the current leader epochs" in doubtful
    assert "leading in the current leader epochs" in expired
    (registered,) = (event for event, _ in contacted.log.at("info"))
    assert registered == "coordination store reconnected; registered in a new session"
