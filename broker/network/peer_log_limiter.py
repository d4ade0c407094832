"""Log lines that peers cause by what they do, limited in number: a flood of bad requests must not bury other lines.

Of one event, one address has LINES_MAX lines in a period; the others are counted, and the count is one line at the
period's end. Addresses past TABLE_MAX in a period share one allowance for each event. Lines about faults of the broker
itself do not come here: an operator must see every one of them.
"""

from __future__ import annotations

from typing import Any, Final

from sordini.broker.network.ports import Log

LINES_MAX: Final = 10
"""Lines of one event and one address in a period."""

PERIOD_MS: Final = 60_000

TABLE_MAX: Final = 1024
"""Pairs of address and event that are counted apart at a time."""

OTHERS: Final = "other addresses"


class _Lines:
    __slots__ = ("began_ms", "left_out", "written")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.written = 0
        self.left_out = 0


class PeerLines:
    """The log, as far as peers cause its lines. The time is that of the last tick."""

    def __init__(self, log: Log, now_ms: int) -> None:
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
        """Tell the time, and write what was left out in periods that are over."""
        self._now_ms = now_ms
        for key, lines in list(self._lines.items()):
            if now_ms - lines.began_ms >= PERIOD_MS:
                self._end(key)

    def close(self) -> None:
        """Write what was left out so far."""
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
        lines.left_out += 1
        return False

    def _end(self, key: tuple[str, str]) -> None:
        address, event = key
        left_out = self._lines.pop(key).left_out
        if left_out:
            self._log.warning("log lines of a peer left out", address=address, left_out=event, count=left_out)
