"""A segment's `.index`: maps an offset to the position of a batch near it.

    0  int32  offset of a batch's last record, less the segment's base offset
    4  int32  position at which that batch starts

Entries rise in both fields. While the segment is active the file is preallocated: zeros follow the entries, and are
trimmed when the segment is rolled or cleanly closed. A tail of zeros in a file of any other size, or in a closed
segment, means that the file was never trimmed, and it is rebuilt from the log: read as entries, such zeros once made
Apache Kafka delete the partition.

Written with pwrite and read with pread, never through a memory map: a store to a mapped page for which a full disk has
no space, or which a failing disk cannot read, kills the process.

A search begins in the warm section, the last 8 KiB: nearly all lookups are near the end of the log, and a plain binary
search would begin each in the middle of the file, on pages that may have left the page cache (KAFKA-6432). Only old
offsets touch the cold part. The last entry is kept in memory, and so are the blocks of the last warm and the last cold
result, which serve sequential readers.
"""

from __future__ import annotations

import errno
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable

from sordini.storage.open_files import Handle

ENTRY_SIZE = 8
WARM_BYTES = 8192
_ENTRY = struct.Struct(">II")
"""Read as unsigned: a value that damage made negative is then beyond every log, and detected by that."""
_WARM_ENTRIES = WARM_BYTES // ENTRY_SIZE
_BLOCK_ENTRIES = 512

Block = tuple["array[int]", "array[int]"]
"""Offsets and positions of consecutive entries."""
_NOTHING: Block = (array("I"), array("I"))


class DamagedIndex(Exception):
    """The file is not an index of this segment."""


class OffsetIndex:
    """The entries of one file. Positions and offsets are absolute at this interface, relative in the file."""

    __slots__ = ("_base", "_cold", "_warm", "count", "handle", "is_preallocated", "last_offset", "last_position")

    def __init__(self, handle: Handle, base: int) -> None:
        self.handle = handle
        self._base = base
        self.is_preallocated = False
        self._warm = self._cold = _NOTHING
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
        before = self._entry(self.count - 2) if self.count > 1 else (-1, 0)
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
        relative = offset - self._base
        offsets, positions = self._warm
        if not offsets or not offsets[0] <= relative < offsets[-1]:
            offsets, positions = self._cold
            if not offsets or not offsets[0] <= relative < offsets[-1]:
                offsets, positions = self._block_of(relative)
                if not offsets:
                    return 0
        return positions[max(bisect_right(offsets, relative) - 1, 0)]

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
        relative, self.last_position = self._entry(self.count - 1)
        self.last_offset = self._base + relative

    def _entry(self, number: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack(self.handle.reopen().read_at(number * ENTRY_SIZE, ENTRY_SIZE))
        return relative, position

    def _block_of(self, relative: int) -> Block:
        """Read the block of entries that holds the largest offset <= `relative`; nothing before the first entry."""
        warm = max(0, self.count - _WARM_ENTRIES)
        if self._entry(warm)[0] <= relative:
            self._warm = self._read(warm, self.count)
            return self._warm
        blocks = -(-warm // _BLOCK_ENTRIES)
        block = bisect_right(range(blocks), relative, key=lambda number: self._entry(number * _BLOCK_ENTRIES)[0]) - 1
        if block < 0:
            return _NOTHING
        first = block * _BLOCK_ENTRIES
        # One more entry, which ends the block's range.
        self._cold = self._read(first, min(self.count, first + _BLOCK_ENTRIES + 1))
        return self._cold

    def _read(self, first: int, end: int) -> Block:
        entries = array("I", self.handle.reopen().read_at(first * ENTRY_SIZE, (end - first) * ENTRY_SIZE))
        if sys.byteorder == "little":
            entries.byteswap()
        return entries[0::2], entries[1::2]

    def _forget(self) -> None:
        self._warm = self._cold = _NOTHING


def warm_search(count: int, warm: int, target: int, value_of: Callable[[int], int]) -> int:
    """How many of `count` rising values are <= `target`; the last `warm` ones are searched first."""
    cold = max(0, count - warm)
    if cold and value_of(cold) > target:
        return bisect_right(range(cold), target, key=value_of)
    return bisect_right(range(count), target, lo=cold, key=value_of)
