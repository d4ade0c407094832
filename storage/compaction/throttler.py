"""Limits reads and writes together to a number of bytes per second (`log.cleaner.io.max.bytes.per.second`)."""

from __future__ import annotations

from sordini.storage.compaction.task import CleanerClock

STEP_SECONDS = 0.05
"""Shorter waits are accumulated: each sleep costs a context switch."""
LEAD_SECONDS = 0.5
"""The longest pause that may be made up for: no larger burst follows it."""


class Throttler:
    """Sleeps when the noted bytes exceed the rate; an infinite rate never sleeps."""

    def __init__(self, clock: CleanerClock, bytes_per_second: float) -> None:
        self._clock = clock
        self._seconds_per_byte = 1 / bytes_per_second
        self._due = clock.monotonic()

    def note(self, size: int) -> None:
        """Note `size` bytes that were read or written, and sleep if they are ahead of the rate."""
        now = self._clock.monotonic()
        if self._seconds_per_byte == 0:
            return
        self._due = max(self._due, now - LEAD_SECONDS) + size * self._seconds_per_byte
        if self._due - now >= STEP_SECONDS:
            self._clock.sleep(self._due - now)
