"""How much more there is to read of a partition since whoever waits was told last.

Pure. Bytes count for consumers when the high watermark has passed them, on a leader as on a follower that serves
consumers (KIP-392); until then they are held. What is held goes when the watermark comes, when the log is cut and when
a term ends, so it is no longer than what is not committed.
"""

from __future__ import annotations

from collections import deque


class UncommittedBytes:
    """The bytes that came, and of them those that may be read."""

    __slots__ = ("held", "readable_bytes")

    def __init__(self) -> None:
        self.held: deque[tuple[int, int]] = deque()
        """(end offset, bytes) of what was appended past the high watermark."""
        self.readable_bytes = 0

    def hold(self, end_offset: int, size: int) -> None:
        """Bytes came that end at this offset; whether they may be read is not known yet."""
        self.held.append((end_offset, size))

    def reached(self, high_watermark: int) -> None:
        """What ends at or below the watermark may be read."""
        held = self.held
        while held and held[0][0] <= high_watermark:
            self.readable_bytes += held.popleft()[1]

    def cut(self, log_end_offset: int) -> None:
        """The log ends here now, and nothing that came may be left beyond."""
        held = self.held
        while held and held[-1][0] > log_end_offset:
            held.pop()

    def clear(self) -> None:
        """Nothing of what came will ever count."""
        self.held.clear()

    def taken(self) -> int:
        """What may be read since the last time that this was asked."""
        size, self.readable_bytes = self.readable_bytes, 0
        return size
