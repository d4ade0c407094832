"""Keeping reads and writes together below a number of bytes per second (`log.cleaner.io.max.bytes.per.second`)."""

from __future__ import annotations

from sordini.storage.compaction.task import Throttle

STEP_SECONDS = 0.05
"""Shorter waits are saved up: a sleep costs a turn of the scheduler."""
LEAD_SECONDS = 0.5
"""Time lost elsewhere may be made up for so far, not more: no burst after a pause."""


class Pace:
    """Sleeps when the bytes that were noted ran ahead of the rate; an infinite rate never sleeps."""

    def __init__(self, throttle: Throttle, bytes_per_second: float) -> None:
        self._throttle = throttle
        self._seconds_per_byte = 1 / bytes_per_second
        self._due = throttle.monotonic()

    def note(self, size: int) -> None:
        """Take account of `size` bytes that were read or written."""
        now = self._throttle.monotonic()
        if self._seconds_per_byte == 0:
            return
        self._due = max(self._due, now - LEAD_SECONDS) + size * self._seconds_per_byte
        if self._due - now >= STEP_SECONDS:
            self._throttle.sleep(self._due - now)
