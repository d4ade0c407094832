"""A segment's `.timeindex`: maps a timestamp to an offset near the first record of that time.

    0  int64  ms, the largest timestamp in the segment so far
    8  int32  offset of the batch that has it (its last record), less the segment's base offset

An entry comes with each entry of the offset index if the largest timestamp grew since, and a last one when the
segment is rolled or cleanly closed, so that a closed segment's largest timestamp is in its last entry. Preallocation,
trimming and the search are as in `offset_index`.
"""

from __future__ import annotations

import struct

from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.storage.index_entries import DamagedIndex, IndexEntries
from sordini.storage.open_files import Handle

ENTRY_SIZE = 12
_ENTRY = struct.Struct(">qi")


class TimeIndex(IndexEntries):
    """The entries of one file; offsets are absolute at this interface."""

    __slots__ = ("_base", "last_offset", "last_timestamp")

    entry = _ENTRY

    def __init__(self, handle: Handle, base: int) -> None:
        super().__init__(handle)
        self._base = base
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base

    def load(self) -> None:
        """Read the last entry of a trimmed file; raises DamagedIndex when the file cannot be an index."""
        self._loaded()
        if not self.count:
            return
        before = self._absolute(self._read_one(self.count - 2)) if self.count > 1 else (NO_TIMESTAMP, self._base)
        if not (before[0] < self.last_timestamp and self._base <= before[1] <= self.last_offset):
            raise DamagedIndex(f"{self.handle.path} ends with {self.last_timestamp} at {self.last_offset}")
        if self.count == 1 and self.last_timestamp == 0 and self.last_offset == self._base:
            raise DamagedIndex(f"{self.handle.path} is all zeros")

    def append(self, timestamp: int, offset: int, *, entries_max: int) -> None:
        """Add an entry if the timestamp grew; raises OSError, after which it is not added, and entries before it may be
        left out, too.
        """
        if timestamp <= self.last_timestamp or self.count >= entries_max:
            return
        self._append(_ENTRY.pack(timestamp, offset - self._base), entries_max)
        self.last_timestamp = timestamp
        self.last_offset = offset

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry (timestamp, offset) that is not later than `timestamp`: no record before its batch is as
        late as it. None when all are later.
        """
        if self.count == 0:
            return None
        if timestamp >= self.last_timestamp:
            return self.last_timestamp, self.last_offset
        found = self._find(timestamp, self.count)
        return None if found is None else self._absolute(found)

    def clear(self) -> None:
        """Forget every entry, before a rebuild, which trims. Old bytes stay until then: ext4 syncs a file at its close
        when it was truncated to 0 and written again.
        """
        self._cleared()
        self.last_timestamp, self.last_offset = NO_TIMESTAMP, self._base

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches from `offset` on."""
        self.trim()
        self._forget()
        while self.count and self.last_offset >= offset:
            self.count -= 1
            self._read_last()
        self.trim()

    def _read_last(self) -> None:
        if self.count == 0:
            self.last_timestamp, self.last_offset = NO_TIMESTAMP, self._base
        else:
            self.last_timestamp, self.last_offset = self._absolute(self._read_one(self.count - 1))

    def _absolute(self, entry: tuple[int, int]) -> tuple[int, int]:
        return entry[0], self._base + entry[1]
