"""How many bytes of a partition became readable since consumers in its purgatory were last notified.

Pure. Bytes are readable once the high watermark has passed them, on a leader as on a follower that serves consumers
(KIP-392). Until then they are uncommitted. They leave this list when the watermark passes them, when the log is
truncated and when the term ends, so it never grows beyond what is uncommitted.
"""

from __future__ import annotations

from collections import deque


class UncommittedBytes:
    """Appended bytes above the high watermark, and how many have become readable."""

    __slots__ = ("appends", "readable_bytes")

    def __init__(self) -> None:
        self.appends: deque[tuple[int, int]] = deque()
        """(end offset, bytes) of each append above the high watermark."""
        self.readable_bytes = 0

    def add(self, end_offset: int, size: int) -> None:
        """Bytes were appended that end at this offset."""
        self.appends.append((end_offset, size))

    def commit(self, high_watermark: int) -> None:
        """Appends that end at or below the high watermark become readable."""
        appends = self.appends
        while appends and appends[0][0] <= high_watermark:
            self.readable_bytes += appends.popleft()[1]

    def truncate(self, log_end_offset: int) -> None:
        """Drop appends that end beyond the new log end."""
        appends = self.appends
        while appends and appends[-1][0] > log_end_offset:
            appends.pop()

    def clear(self) -> None:
        """Drop all appends: the term is over."""
        self.appends.clear()

    def take_readable(self) -> int:
        """How many bytes became readable since the last call."""
        size, self.readable_bytes = self.readable_bytes, 0
        return size
