"""Rate limit on log lines that peers cause: a flood of bad requests must not bury other lines.

For each event and address LINES_MAX lines are written in a period; further ones are counted, and the count is one line
at the period's end. Addresses beyond TABLE_MAX in a period share one allowance for each event. Lines about faults of
the broker itself are not limited: an operator must see every one of them.
"""

from __future__ import annotations

from typing import Any, Final

from sordini.replication.ports import Logger

LINES_MAX: Final = 10
"""Lines of one event and one address in a period."""

PERIOD_MS: Final = 60_000

TABLE_MAX: Final = 1024
"""Pairs of address and event that are counted separately."""

OTHERS: Final = "other addresses"


class _Lines:
    __slots__ = ("began_ms", "suppressed", "written")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.written = 0
        self.suppressed = 0


class PeerLogLimiter:
    """The log for lines that peers cause. The time is that of the last tick."""

    def __init__(self, log: Logger, now_ms: int) -> None:
        self._log = log
        self._now_ms = now_ms
        self._lines: dict[tuple[str, str], _Lines] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def info(self, address: str, event: str, /, **fields: Any) -> None:
        if self._may_write(address, event):
            self._log.info(event, **fields)

    def warning(self, address: str, event: str, /, **fields: Any) -> None:
        if self._may_write(address, event):
            self._log.warning(event, **fields)

    def tick(self, now_ms: int) -> None:
        """Take the time, and write the counts of periods that are over."""
        self._now_ms = now_ms
        for key, lines in list(self._lines.items()):
            if now_ms - lines.began_ms >= PERIOD_MS:
                self._end(key)

    def close(self) -> None:
        """Write all counts."""
        for key in list(self._lines):
            self._end(key)

    def _may_write(self, address: str, event: str) -> bool:
        lines = self._lines.get((address, event))
        if lines is None:
            if len(self._lines) >= TABLE_MAX:
                address = OTHERS
            lines = self._lines.setdefault((address, event), _Lines(self._now_ms))
        if lines.written < LINES_MAX:
            lines.written += 1
            return True
        lines.suppressed += 1
        return False

    def _end(self, key: tuple[str, str]) -> None:
        address, event = key
        suppressed = self._lines.pop(key).suppressed
        if suppressed:
            self._log.warning("peer log lines suppressed", address=address, suppressed=event, count=suppressed)
