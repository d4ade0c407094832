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

import errno
import struct

from sordini.storage.index_entries import IndexEntries
from sordini.storage.open_files import Handle

ENTRY_SIZE = 8
_ENTRY = struct.Struct(">II")
"""Read as unsigned: a value that damage made negative is then beyond every log, and detected by that."""


class DamagedIndex(Exception):
    """The file is not an index of this segment."""


class OffsetIndex(IndexEntries):
    """The entries of one file. Positions and offsets are absolute at this interface, relative in the file."""

    __slots__ = ("_base", "count", "is_preallocated", "last_offset", "last_position")

    entry = _ENTRY

    def __init__(self, handle: Handle, base: int) -> None:
        super().__init__(handle)
        self._base = base
        self.is_preallocated = False
        self.count = 0
        self.last_offset = base
        self.last_position = 0

    def load(self, log_bytes: int) -> None:
        """Read the last entries of a trimmed file; raises DamagedIndex when the file cannot be this log's.

        Damage further in is detected at its use (`Segment.find`).
        """
        size = self.handle.reopen().size()
        if size % ENTRY_SIZE:
            raise DamagedIndex(f"{self.handle.path} has {size} bytes")
        self._forget()
        self.count = size // ENTRY_SIZE
        self._read_last()
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
        """Add an entry; raises OSError, after which nothing has been added."""
        file = self.handle.file or self.handle.reopen()
        self.handle.used = True
        if not self.is_preallocated:
            # Sparse: blocks are allocated when entries are written.
            file.truncate(entries_max * ENTRY_SIZE)
            self.is_preallocated = True
        entry = _ENTRY.pack(offset - self._base, position)
        if file.write_at(self.count * ENTRY_SIZE, entry) != ENTRY_SIZE:
            raise OSError(errno.ENOSPC, "a short write", self.handle.path)
        self.count += 1
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

    def trim(self) -> None:
        """Trim the preallocated zeros."""
        self.handle.reopen().truncate(self.count * ENTRY_SIZE)
        self.is_preallocated = False

    def clear(self) -> None:
        """Forget every entry, before a rebuild, which trims. Old bytes stay until then: ext4 syncs a file at its close
        when it was truncated to 0 and written again.
        """
        self._forget()
        self.count, self.last_offset, self.last_position = 0, self._base, 0
        self.handle.reopen(create=True)
        self.is_preallocated = False

    def truncate_to(self, offset: int, position: int) -> None:
        """Drop the entries of batches from `offset` on, or that start at `position` or later."""
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
