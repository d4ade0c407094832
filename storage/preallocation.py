"""Disk space that `preallocate` reserves for active segments ahead of their records, within a bound.

Reserved space keeps a segment contiguous, and its appends from failing on a full disk. It does not change the file's
length, so no zeros follow the records after a crash. But `segment.bytes` is up to 2 GiB and any client may create
topics: so all reservations of a log directory together are at most a SHARE of the space that would be free without
them. A segment beyond that has no reservation, and works as without `preallocate`.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.types import TopicPartition
from sordini.storage.disk import Disk
from sordini.storage.segment import Segment

SHARE: Final = 8
"""Reservations take at most 1 / SHARE of the free space."""


class Reservations:
    """The reservations of one log directory: at most one per log, for its active segment."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._held: dict[TopicPartition, tuple[Segment, int]] = {}
        self.held_bytes = 0
        self.refused = 0
        """Segments without a reservation since the start, because of the bound."""

    def take(self, log: TopicPartition, segment: Segment, size: int) -> None:
        """Reserve `size` bytes for a log's new active segment, if the bound and the file system allow it."""
        self.release(log)
        try:
            _, free = self._disk.space(self._path)
        except OSError:
            return
        if (self.held_bytes + size) * SHARE > free + self.held_bytes:
            self.refused += 1
            return
        segment.reserve(size)
        if segment.is_reserved:
            self._held[log] = segment, size
            self.held_bytes += size

    def release(self, log: TopicPartition) -> None:
        """Free what a log's segment did not use: it is closed, or the log is deleted. Raises OSError."""
        if log in self._held:
            segment, size = self._held.pop(log)
            self.held_bytes -= size
            if not segment.handle.is_retired:  # Otherwise its space is freed with its file.
                segment.give_back()
