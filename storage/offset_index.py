"""A segment's `.index`: from an offset to a position in the log near it.

    0  int32  offset of a batch's last record, less the segment's base offset
    4  int32  position at which that batch starts

Entries rise in both fields. While the segment is active the file is preallocated: zeros follow the entries, and are
cut off when the segment is rolled or cleanly closed. A tail of zeros in a file of any other size, or in a closed
segment, means that the file was never trimmed, and it is rebuilt from the log: read as entries it would once have
made Apache Kafka delete the partition.

Nothing is kept in memory but the last entry and one block of entries read last, which serves sequential readers.
"""

from __future__ import annotations

import errno
import struct
from bisect import bisect_right

from sordini.storage.open_files import Handle

ENTRY_SIZE = 8
_ENTRY = struct.Struct(">ii")
_BLOCK_ENTRIES = 512
_unpack = _ENTRY.unpack_from


class DamagedIndex(Exception):  # noqa: N818 - a finding, which its owner mends by rebuilding.
    """The file is not an index of this segment."""


class OffsetIndex:
    """The entries of one file. Positions and offsets are absolute at this interface, relative in the file."""

    __slots__ = ("_base", "_block", "count", "handle", "is_preallocated", "last_offset", "last_position")

    def __init__(self, handle: Handle, base: int) -> None:
        self.handle = handle
        self._base = base
        self.is_preallocated = False
        self._block: list[int] = []
        self.count = 0
        self.last_offset = base
        self.last_position = 0

    def load(self, log_bytes: int) -> None:
        """Read the last entry of a trimmed file; raises DamagedIndex when the file cannot be one of this log."""
        size = self.handle.reopen().size()
        if size % ENTRY_SIZE:
            raise DamagedIndex(f"{self.handle.path} has {size} bytes")
        self._forget()
        self.count = size // ENTRY_SIZE
        self._read_last()
        if self.count and not (0 < self.last_position < log_bytes and self.last_offset >= self._base):
            raise DamagedIndex(f"{self.handle.path} ends with {self.last_offset} at byte {self.last_position}")

    def append(self, offset: int, position: int, *, entries_max: int) -> None:
        """Add an entry; raises OSError, after which nothing has been added."""
        file = self.handle.file or self.handle.reopen()
        self.handle.used = True
        if not self.is_preallocated:
            # Sparse: the room is taken when entries are written.
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
        relative = offset - self._base
        block = self._block
        if not block or not block[0] <= relative < block[-2]:
            if not self._find_block(relative):
                return 0
            block = self._block
        found = bisect_right(range(len(block) // 2), relative, key=lambda entry: block[2 * entry])
        return block[2 * found - 1]

    def trim(self) -> None:
        """Cut the preallocated zeros off."""
        self.handle.reopen().truncate(self.count * ENTRY_SIZE)
        self.is_preallocated = False

    def clear(self) -> None:
        """Forget every entry, to be rebuilt and then trimmed. Old bytes stay till then: a file that is cut to
        nothing and written again is forced to the disk by ext4 when it is closed.
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
        # What is cut must not come back as entries when the file grows past it again.
        self.trim()

    def _read_last(self) -> None:
        if self.count == 0:
            self.last_offset, self.last_position = self._base, 0
            return
        entry = self.handle.reopen().read_at((self.count - 1) * ENTRY_SIZE, ENTRY_SIZE)
        relative, self.last_position = _ENTRY.unpack(entry)
        self.last_offset = self._base + relative

    def _find_block(self, relative: int) -> bool:
        """Read the block of entries that holds the largest offset <= `relative`; False before the first entry."""
        file = self.handle.reopen()

        def first_of(block: int) -> int:
            return int(_unpack(file.read_at(block * _BLOCK_ENTRIES * ENTRY_SIZE, ENTRY_SIZE))[0])

        blocks = -(-self.count // _BLOCK_ENTRIES)
        block = bisect_right(range(blocks), relative, key=first_of) - 1
        if block < 0:
            return False
        first = block * _BLOCK_ENTRIES
        # One more, so that the block knows where it ends.
        entries = min(self.count - first, _BLOCK_ENTRIES + 1)
        data = file.read_at(first * ENTRY_SIZE, entries * ENTRY_SIZE)
        self._block = list(struct.unpack(f">{2 * entries}i", data))
        return True

    def _forget(self) -> None:
        self._block = []
