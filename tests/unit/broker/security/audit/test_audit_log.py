"""Lines of the audit log: their form, what peers can do to them, and how many they may cause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.security.audit.audit_lines import TEXT_CHARACTERS_MAX, AuditEvent, audit_line, clipped
from sordini.broker.security.audit.audit_log import AuditLog
from sordini.broker.security.audit.line_limiter import ADDRESSES_MAX, BOUNDS, OTHERS, PERIOD_MS
from tests.support.audit_lines import AuditLines
from tests.support.fake_ports import StillClock

FAILED, DENIED, CHANGE = AuditEvent.LOGIN_FAILED, AuditEvent.DENIED, AuditEvent.CHANGE


class Written:
    """An audit log, its clock and its lines."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.lines = AuditLines()
        self.log = AuditLog(self.lines, 1, self.clock)

    def flood(self, event: AuditEvent, address: str, count: int) -> int:
        """Write lines; how many came through."""
        before = len(self.lines.all())
        for _ in range(count):
            self.log.write(event, address, {})
        return len(self.lines.all()) - before


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_line_begins_with_the_time_the_event_and_the_broker() -> None:
    line = audit_line("2025-11-25T22:02:46.120Z", 3, DENIED, {"principal": "User:alice"})
    assert line == ('{"time": "2025-11-25T22:02:46.120Z", "event": "denied", "broker": 3, "principal": "User:alice"}\n')


@given(st.text(st.characters(codec=None), max_size=2 * TEXT_CHARACTERS_MAX))
def test_no_text_of_a_peer_makes_a_second_line_or_a_field_or_anything_but_printable_ascii(text: str) -> None:
    line = audit_line("", 1, FAILED, {"user": clipped(text), "reason": "x"})
    assert line.count("\n") == 1
    assert line[:-1].isascii()
    assert line[:-1].isprintable()
    read = json.loads(line)
    assert list(read) == ["time", "event", "broker", "user", "reason"]
    assert read["user"][:TEXT_CHARACTERS_MAX] == json.loads(json.dumps(text))[:TEXT_CHARACTERS_MAX]
    assert len(read["user"]) <= TEXT_CHARACTERS_MAX + 3


def test_a_log_without_a_file_writes_and_counts_nothing() -> None:
    log = AuditLog(None, 1, StillClock())
    log.write(DENIED, "192.0.2.1", {})
    log.drop(DENIED, "192.0.2.1", 10_000)
    log.tick(10**9)
    log.close()
    assert (log.is_on, log.lines_dropped) == (False, 0)


def test_one_address_has_a_bound_and_takes_nothing_from_another(written: Written) -> None:
    bound = BOUNDS[FAILED].of_address
    assert written.flood(FAILED, "192.0.2.1", bound + 5) == bound
    assert written.flood(FAILED, "192.0.2.2", 5) == 5
    assert written.log.lines_dropped == 5


@pytest.mark.parametrize("event", BOUNDS)
def test_all_addresses_together_have_a_bound(written: Written, event: AuditEvent) -> None:
    of_address, of_all = BOUNDS[event]
    addresses = of_all // of_address + 2
    assert sum(written.flood(event, f"192.0.2.{number}", of_address) for number in range(addresses)) == of_all


def test_a_flood_of_failed_logins_and_denials_drops_no_change(written: Written) -> None:
    for number in range(30):
        written.flood(FAILED, f"192.0.2.{number}", 200)
        written.flood(DENIED, f"192.0.2.{number}", 200)
    assert written.flood(CHANGE, "192.0.2.1", 100) == 100


def test_what_a_period_dropped_is_a_line_at_its_end_and_the_next_one_counts_from_zero(written: Written) -> None:
    bound = BOUNDS[DENIED].of_address
    written.flood(DENIED, "192.0.2.1", bound + 7)
    written.log.tick(written.clock.ms + PERIOD_MS - 1)
    assert written.lines.of("lines dropped") == []
    written.clock.ms += PERIOD_MS
    written.log.tick(written.clock.ms)
    [line] = written.lines.of("lines dropped")
    assert {key: line[key] for key in ("dropped", "address", "count", "reason")} == {
        "dropped": "denied",
        "address": "192.0.2.1",
        "count": 7,
        "reason": "too many",
    }
    assert written.flood(DENIED, "192.0.2.1", 5) == 5


def test_a_log_that_is_closed_says_what_it_has_dropped(written: Written) -> None:
    written.flood(DENIED, "192.0.2.1", BOUNDS[DENIED].of_address + 1)
    written.log.close()
    assert [line["count"] for line in written.lines.of("lines dropped")] == [1]


def test_addresses_beyond_their_number_share_one_count(written: Written) -> None:
    limits = [written.log._limiter.admits(CHANGE, f"a{number}") for number in range(ADDRESSES_MAX)]
    assert all(limits)
    bound = BOUNDS[CHANGE].of_address
    assert sum(written.log._limiter.admits(CHANGE, f"b{number}") for number in range(bound + 9)) == bound
    assert written.log._limiter.begin(0) == {(CHANGE, OTHERS): 9}


def test_lines_that_are_not_even_made_are_counted_once(written: Written) -> None:
    bound = BOUNDS[DENIED].of_address
    written.flood(DENIED, "192.0.2.1", bound)
    written.log.drop(DENIED, "192.0.2.1", 1_000)
    assert written.log.lines_dropped == 1_000


def test_lines_that_could_not_be_written_count_as_dropped(written: Written) -> None:
    written.lines.lines_lost = 4
    assert written.log.lines_dropped == 4


def test_events_are_named_in_bounds_but_those_of_the_log_itself() -> None:
    everything: Any = set(AuditEvent) - {AuditEvent.DROPPED}
    assert set(BOUNDS) == everything
