"""The audit log of a broker: who failed to log in, who was denied what, who changed what.

    logins, rules, handlers ──► AuditLog ── within the bounds ──► AuditOutput (process/audit_file.py)
                                    '── beyond ──► counted; a line says how many

Without an output nothing is written, and nothing is done for it: callers ask `is_on` first where a line costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sordini.broker.security.audit.audit_lines import AuditEvent, audit_line, clipped
from sordini.broker.security.audit.line_limiter import LineLimiter
from sordini.replication.ports import Clock
from sordini.system.clock import utc_text


class AuditOutput(Protocol):
    """Where lines go. It never blocks and never raises; what it cannot write it counts, and writes the count."""

    def write(self, text: str, /) -> int: ...

    @property
    def lines_lost(self) -> int:
        """Lines that could not be written since the start."""


class AuditLog:
    """Writes lines, within the bounds of `LineLimiter`."""

    def __init__(self, output: AuditOutput | None, broker_id: int, clock: Clock) -> None:
        self._output = output
        self._broker_id = broker_id
        self._clock = clock
        self._limiter = LineLimiter()
        self._suppressed = 0

    @property
    def is_on(self) -> bool:
        return self._output is not None

    @property
    def lines_dropped(self) -> int:
        """Lines that were too many, or could not be written."""
        return self._suppressed + (0 if self._output is None else self._output.lines_lost)

    def write(self, event: AuditEvent, address: str, fields: Mapping[str, Any]) -> None:
        """Write a line that a peer of this address causes, unless there are too many."""
        if self._output is None:
            return
        self.tick(self._clock.monotonic_ms())
        if self._limiter.admits(event, address):
            self._line(event, fields)
        else:
            self._suppressed += 1

    def drop(self, event: AuditEvent, address: str, count: int) -> None:
        """Count lines that were not even made."""
        if self._output is None:
            return
        self._suppressed += count - self._limiter.admits(event, address, count)

    def tick(self, now_ms: int) -> None:
        """Begin a period when the former one is over, and write what it dropped; `now_ms` of the monotonic clock."""
        if self._output is not None and self._limiter.is_over(now_ms):
            self._begin_period(now_ms)

    def close(self) -> None:
        """Write what the period that has not ended has dropped."""
        if self._output is not None:
            self._begin_period(self._clock.monotonic_ms())

    def _begin_period(self, now_ms: int) -> None:
        for (event, address), count in self._limiter.begin(now_ms).items():
            dropped = {"dropped": event.value, "address": clipped(address), "count": count, "reason": "too many"}
            self._line(AuditEvent.DROPPED, dropped)

    def _line(self, event: AuditEvent, fields: Mapping[str, Any]) -> None:
        assert self._output is not None
        self._output.write(audit_line(utc_text(self._clock.now_ms()), self._broker_id, event, fields))
