"""Why a connection must be closed: it is idle, too slow, does not read its responses, or does not log in. Pure.

A check compares what the connection has moved since the last check that found progress. Only the peer's delays are held
against it: while the broker makes a response, or does not read, no time of the peer runs out.
"""

from __future__ import annotations

from sordini.broker.network.limits import ConnectionLimits
from sordini.broker.network.ports import LoginState
from sordini.system.named_tuple import NamedTuple

RATE_MEASURED_MS_MIN = 1000
"""A rate over less would close a connection for the pause between two packets."""


class Activity(NamedTuple):
    """A connection at the time of a check."""

    bytes_sent: int
    queued_bytes: int
    """Of responses that the peer has not read."""
    bytes_received: int
    awaits_rest: bool
    """Whether a part of a request was received, and the broker waits for the rest of it."""
    requests: int
    has_pending_requests: bool
    last_active_ms: int
    login: LoginState | None
    """On a SASL listener."""


class CloseReasons:
    """Checks one connection from time to time."""

    __slots__ = ("_opened_ms", "_progress_ms", "_received", "_sent")

    def __init__(self, now_ms: int) -> None:
        self._opened_ms = self._progress_ms = now_ms
        self._received = self._sent = 0

    def why_close(self, now: Activity, limits: ConnectionLimits, now_ms: int) -> str | None:
        """Why the connection must be closed; None where it may stay."""
        elapsed_ms = now_ms - self._progress_ms
        if now.queued_bytes:
            # Its requests are not read meanwhile, so the peer can be neither idle nor slow to send.
            if now.bytes_sent == self._sent and elapsed_ms >= limits.stall_ms_max:
                return f"nothing could be sent for {elapsed_ms} ms"
            if now.bytes_sent != self._sent:
                self._sent, self._progress_ms = now.bytes_sent, now_ms
            return None
        if now.awaits_rest and limits.frame_bytes_per_s_min > 0:
            if elapsed_ms < RATE_MEASURED_MS_MIN:
                return None
            if (now.bytes_received - self._received) * 1000 < limits.frame_bytes_per_s_min * elapsed_ms:
                return f"a request arrives at less than {limits.frame_bytes_per_s_min} bytes/s"
        age_ms = now_ms - self._opened_ms
        if now.login is not None and not now.has_pending_requests and (reason := now.login.why_close(age_ms)):
            return reason
        self._progress_ms, self._received = now_ms, now.bytes_received
        if not now.requests and 0 <= limits.first_request_ms_max <= age_ms:
            return f"no request within {limits.first_request_ms_max} ms"
        if not now.has_pending_requests and 0 <= limits.idle_ms_max <= now_ms - now.last_active_ms:
            return f"idle for {limits.idle_ms_max} ms (connections.max.idle.ms)"
        return None
