"""How many lines peers may cause in the audit log: those of one address, and all together. Pure.

Each event has its own bounds, so that a flood of failed logins drops no line about a change: a peer that
may not log in cannot hide what another one does. What is beyond is counted, and the counts are lines at the end of
the period.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from sordini.broker.security.audit.audit_lines import AuditEvent
from sordini.system.named_tuple import NamedTuple

PERIOD_MS: Final = 10_000
ADDRESSES_MAX: Final = 1_000
"""Addresses of a period that are counted apart; those beyond share one count."""
OTHERS: Final = "other addresses"


class Bounds(NamedTuple):
    """Lines of one event in a period."""

    of_address: int
    of_all: int


BOUNDS: Final = {
    AuditEvent.LOGIN_FAILED: Bounds(100, 1_000),
    AuditEvent.LOGIN: Bounds(100, 1_000),
    AuditEvent.DENIED: Bounds(100, 1_000),
    AuditEvent.CHANGE: Bounds(2_000, 5_000),
}


class LineLimiter:
    """Counts the lines of a period."""

    def __init__(self) -> None:
        self._ends_ms = 0
        self._addresses: set[str] = set()
        self._of_address: Counter[tuple[AuditEvent, str]] = Counter()
        self._of_all: Counter[AuditEvent] = Counter()
        self._dropped: Counter[tuple[AuditEvent, str]] = Counter()

    def admits(self, event: AuditEvent, address: str, count: int = 1) -> int:
        """How many of `count` further lines may be written; the others are counted as dropped."""
        if address not in self._addresses:
            if len(self._addresses) < ADDRESSES_MAX:
                self._addresses.add(address)
            else:
                address = OTHERS
        key, bounds = (event, address), BOUNDS[event]
        left = min(bounds.of_address - self._of_address[key], bounds.of_all - self._of_all[event])
        admitted = min(count, left)
        self._of_address[key] += admitted
        self._of_all[event] += admitted
        if admitted < count:
            self._dropped[key] += count - admitted
        return admitted

    def is_over(self, now_ms: int) -> bool:
        """Whether the period is over; `now_ms` is of the monotonic clock."""
        return now_ms >= self._ends_ms

    def begin(self, now_ms: int) -> dict[tuple[AuditEvent, str], int]:
        """Begin a period; how many lines the former one dropped, by event and address."""
        dropped = dict(self._dropped)
        self._ends_ms = now_ms + PERIOD_MS
        self._addresses.clear()
        self._of_address.clear()
        self._of_all.clear()
        self._dropped.clear()
        return dropped
