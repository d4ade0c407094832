"""Room on the disk that `preallocate` takes for active segments ahead of their records, within a bound.

Reserved room keeps a segment in one piece and its appends from failing for want of room; it does not change the file's
length, so that no zeros follow the records after a crash. But `segment.bytes` is up to 2 GiB and anybody may create
topics: so all reservations of a log directory together are at most a SHARE of the room that would be free without
them. A segment past that has no reservation, and works as without `preallocate`.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.types import TopicPartition
from sordini.storage.disk import Disk
from sordini.storage.segment import Segment

SHARE: Final = 8
"""Reservations take at most one part in so many."""


class Reservations:
    """The reservations of one log directory: at most one for each log, its active segment's."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._held: dict[TopicPartition, tuple[Segment, int]] = {}
        self.held_bytes = 0
        self.refused = 0
        """Segments that were given none since the start."""

    def take(self, log: TopicPartition, segment: Segment, size: int) -> None:
        """Reserve `size` bytes for a log's new active segment, if the bound allows it and the file system can."""
        self.give_back(log)
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

    def give_back(self, log: TopicPartition) -> None:
        """Free what a log's segment did not use: it is closed, or the log is deleted. Raises OSError."""
        if log in self._held:
            segment, size = self._held.pop(log)
            self.held_bytes -= size
            if not segment.handle.is_condemned:  # Otherwise its room is freed with its file.
                segment.give_back()
