"""A segment's `.index`: maps an offset to the position of a batch near it.

    0  int32  offset of a batch's last record, less the segment's base offset
    4  int32  position at which that batch starts

Entries rise in both fields. While the segment is active the file is preallocated: zeros follow the entries, and are
trimmed when the segment is rolled or cleanly closed. A tail of zeros in a file of any other size, or in a closed
segment, means that the file was never trimmed, and it is rebuilt from the log: read as entries, such zeros once made
Apache Kafka delete the partition.

Written with pwrite, never through a memory map: a store to a mapped page for which a full disk has no space kills the
process. The last entry is kept in memory; how the others are searched is in `index_entries`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from sordini.storage.index_entries import DamagedIndex, IndexEntries
from sordini.storage.open_files import Handle

ENTRY_SIZE = 8
_ENTRY = struct.Struct(">II")
"""Read as unsigned: a value that damage made negative is then beyond every log, and detected by that."""


class OffsetIndex(IndexEntries):
    """The entries of one file. Positions and offsets are absolute at this interface, relative in the file."""

    __slots__ = ("_base", "last_offset", "last_position")

    entry = _ENTRY

    def __init__(self, handle: Handle, base: int) -> None:
        super().__init__(handle)
        self._base = base
        self.last_offset = base
        self.last_position = 0

    def load(self, log_bytes: int) -> None:
        """Read the last entries of a trimmed file; raises DamagedIndex when the file cannot be this log's.

        Damage further in is detected at its use (`Segment.find`).
        """
        self._loaded()
        if not self.count:
            return
        before = self._read_one(self.count - 2) if self.count > 1 else (-1, 0)
        if not (
            before[0] + self._base < self.last_offset
            and before[1] < self.last_position < log_bytes
            and self.last_offset >= self._base
        ):
            raise DamagedIndex(f"{self.handle.path} ends with {self.last_offset} at byte {self.last_position}")

    def append(self, offset: int, position: int, *, entries_max: int) -> None:
        """Add an entry; raises OSError, after which it is not added, and entries before it may be left out, too."""
        self._append(_ENTRY.pack(offset - self._base, position), entries_max)
        self.last_offset = offset
        self.last_position = position

    def lookup(self, offset: int) -> int:
        """The position of a batch whose last offset is the largest known <= `offset`; 0 before the first entry."""
        if self.count == 0 or offset < self._base:
            return 0
        if offset >= self.last_offset:
            return self.last_position
        found = self._find(offset - self._base, self.count)
        return 0 if found is None else found[1]

    def first_from(self, position: int) -> int | None:
        """The position of the first batch with an entry that starts at `position` or later; None when there is none."""
        if self.count == 0 or self.last_position < position:
            return None
        number = bisect_left(range(self.count), position, key=lambda number: self._read_one(number)[1])
        return self._read_one(number)[1] if number < self.count else None

    def clear(self) -> None:
        """Forget every entry, before a rebuild, which trims. Old bytes stay until then: ext4 syncs a file at its close
        when it was truncated to 0 and written again.
        """
        self._cleared()
        self.last_offset, self.last_position = self._base, 0

    def truncate_to(self, offset: int, position: int) -> None:
        """Drop the entries of batches from `offset` on, or that start at `position` or later."""
        self.trim()
        self._forget()
        while self.count and (self.last_offset >= offset or self.last_position >= position):
            self.count -= 1
            self._read_last()
        # Truncated entries must not be read again when the file grows.
        self.trim()

    def _read_last(self) -> None:
        if self.count == 0:
            self.last_offset, self.last_position = self._base, 0
            return
        relative, self.last_position = self._read_one(self.count - 1)
        self.last_offset = self._base + relative
