"""When a connection is closed: idle, slow, not reading, not logging in."""

from __future__ import annotations

import pytest

from sordini.broker.network.idle_connections import Activity, CloseReasons
from sordini.broker.network.limits import ConnectionLimits

OPENED_MS = 1_000
AT_REST = Activity(
    bytes_sent=0,
    queued_bytes=0,
    bytes_received=0,
    awaits_rest=False,
    requests=1,
    has_pending_requests=False,
    last_active_ms=OPENED_MS,
    login=None,
)
LIMITS = ConnectionLimits(idle_ms_max=60_000, stall_ms_max=30_000, first_request_ms_max=5_000)
SLOW_LIMITS = LIMITS._replace(frame_bytes_per_s_min=100)


class LoginOf:
    """A login that has to be complete within a second."""

    on_complete = staticmethod(lambda: None)
    receive_bytes_max = 1_000

    def why_close(self, age_ms: int) -> str | None:
        return "no login" if age_ms >= 1_000 else None

    def closed(self) -> None: ...


@pytest.fixture
def reasons() -> CloseReasons:
    return CloseReasons(OPENED_MS)


def after(ms: int) -> int:
    return OPENED_MS + ms


def test_a_connection_is_idle_from_the_limit_on(reasons: CloseReasons) -> None:
    assert reasons.why_close(AT_REST, LIMITS, after(59_999)) is None
    reason = reasons.why_close(AT_REST, LIMITS, after(60_000))
    assert reason == "idle for 60000 ms (connections.max.idle.ms)"


def test_a_connection_with_a_pending_request_is_never_idle(reasons: CloseReasons) -> None:
    assert reasons.why_close(AT_REST._replace(has_pending_requests=True), LIMITS, after(600_000)) is None


def test_a_peer_that_takes_no_byte_of_its_responses_is_closed(reasons: CloseReasons) -> None:
    stalled = AT_REST._replace(queued_bytes=10)
    assert reasons.why_close(stalled, LIMITS, after(29_999)) is None
    assert reasons.why_close(stalled, LIMITS, after(30_000)) == "nothing could be sent for 30000 ms"


def test_a_peer_that_takes_some_bytes_between_checks_is_kept(reasons: CloseReasons) -> None:
    for number in range(1, 5):
        taking = AT_REST._replace(queued_bytes=10, bytes_sent=number)
        assert reasons.why_close(taking, LIMITS, after(number * 29_000)) is None
    assert reasons.why_close(taking, LIMITS, after(4 * 29_000 + 30_000)) is not None


def test_the_rest_of_a_request_must_arrive_at_the_least_rate(reasons: CloseReasons) -> None:
    assert reasons.why_close(AT_REST._replace(awaits_rest=True), SLOW_LIMITS, after(999)) is None
    kept = AT_REST._replace(awaits_rest=True, bytes_received=100)
    assert reasons.why_close(kept, SLOW_LIMITS, after(1_000)) is None
    slow = AT_REST._replace(awaits_rest=True, bytes_received=199)
    assert reasons.why_close(slow, SLOW_LIMITS, after(2_000)) == "a request arrives at less than 100 bytes/s"


def test_between_requests_no_rate_is_asked_of_a_peer(reasons: CloseReasons) -> None:
    assert reasons.why_close(AT_REST, SLOW_LIMITS, after(30_000)) is None


def test_a_connection_without_a_request_is_closed_and_one_with_a_request_is_kept(reasons: CloseReasons) -> None:
    assert reasons.why_close(AT_REST, LIMITS, after(5_000)) is None
    assert reasons.why_close(AT_REST._replace(requests=0), LIMITS, after(4_999)) is None
    assert reasons.why_close(AT_REST._replace(requests=0), LIMITS, after(5_000)) == "no request within 5000 ms"


def test_a_login_gives_its_own_reason_but_not_while_it_is_being_served(reasons: CloseReasons) -> None:
    logging_in = AT_REST._replace(login=LoginOf())
    assert reasons.why_close(logging_in, LIMITS, after(999)) is None
    assert reasons.why_close(logging_in._replace(has_pending_requests=True), LIMITS, after(1_000)) is None
    assert reasons.why_close(logging_in, LIMITS, after(1_000)) == "no login"


def test_limits_that_are_off_close_nothing(reasons: CloseReasons) -> None:
    off = ConnectionLimits(idle_ms_max=-1, first_request_ms_max=-1)
    assert reasons.why_close(AT_REST._replace(requests=0), off, after(10_000_000)) is None


def test_a_stall_and_a_rate_are_measured_from_the_last_check_at_rest(reasons: CloseReasons) -> None:
    assert reasons.why_close(AT_REST._replace(bytes_received=1_000), SLOW_LIMITS, after(40_000)) is None
    assert reasons.why_close(AT_REST._replace(queued_bytes=10), SLOW_LIMITS, after(41_000)) is None
    slow = AT_REST._replace(awaits_rest=True, bytes_received=1_099)
    assert reasons.why_close(slow, SLOW_LIMITS, after(41_000)) == "a request arrives at less than 100 bytes/s"
