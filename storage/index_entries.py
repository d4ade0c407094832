"""The entries of an index file, which rise in their first field: appended with few writes, searched with few reads.

    |----- cold: blocks of 512 entries -----|-- warm: the last 8 KiB when it was read --| entries appended since |

A search begins in the warm section: nearly all lookups are near the end of the log, and a plain binary search would
begin each in the middle of the file, on pages that may have left the page cache (KAFKA-6432). Only old values touch
the cold part. There the first value of each block is remembered once it was read, so a lookup at random soon costs
one read, whatever the size of the index. The last warm and the last cold block are kept: they serve sequential readers.

Appended entries are held in memory and written some at a time: a batch of 64 KiB adds one to both indexes of its
segment, and two writes of a few bytes cost a tenth of such an append. What a crash leaves out, recovery adds again: the
indexes of an active segment are never trusted after one.

Read with pread, never through a memory map: a page which a failing disk cannot read kills the process.
"""

from __future__ import annotations

import errno
import struct
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from typing import ClassVar

from sordini.storage.open_files import Handle

WARM_BYTES = 8192
# Written at once, a million records in batches of 64 KiB cost 2,400 writes; so they cost 970.
UNWRITTEN_BYTES_MAX = 256
"""Of entries in memory that are not in the file yet."""
UNWRITTEN_PARTS = 16
"""At most one of so many parts of a small index is in memory."""
# A lookup at random read an offset index five or six times, a time index 14 times; with the first values known, once.
_BLOCK_ENTRIES = 512
_UNKNOWN = -1

Block = tuple[int, int, bytes]
"""The first value, the value at which the next block begins, and the entries."""
_NOTHING: Block = (0, 0, b"")
_NO_FIRSTS = array("q")
"""Replaced, never changed: most indexes are never searched."""


class DamagedIndex(Exception):
    """The file is not an index of this segment."""


class IndexEntries(ABC):
    """The entries of one file, whose first fields are never negative."""

    __slots__ = ("_cold", "_firsts", "_unwritten", "_warm", "_written", "count", "handle", "is_preallocated")

    entry: ClassVar[struct.Struct]
    """The two fields of an entry."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.count = 0
        self.is_preallocated = False
        self._written = 0
        """Entries in the file; the others are in `_unwritten`."""
        self._unwritten = b""
        self._warm = self._cold = _NOTHING
        self._firsts = _NO_FIRSTS

    @property
    def needs_trim(self) -> bool:
        """Whether the file lacks entries, or zeros follow them."""
        return self.is_preallocated or bool(self._unwritten)

    def trim(self) -> None:
        """Write all entries, and trim the preallocated zeros; raises OSError."""
        if self._unwritten:
            self._write()
        self.handle.reopen().truncate(self.count * self.entry.size)
        self._written = self.count
        self.is_preallocated = False

    def _loaded(self) -> None:
        """Take the entries of a trimmed file; raises DamagedIndex for a size that no number of entries has."""
        size = self.handle.reopen().size()
        if size % self.entry.size:
            raise DamagedIndex(f"{self.handle.path} has {size} bytes")
        self._forget()
        self.count = self._written = size // self.entry.size
        self._unwritten = b""
        self._read_last()

    def _append(self, entry: bytes, entries_max: int) -> None:
        """Add an entry; raises OSError, after which it and all that were not written are left out.

        `entries_max` is the number of entries for which the file is preallocated.
        """
        self._unwritten += entry
        self.count += 1
        if len(self._unwritten) >= min(entries_max * self.entry.size // UNWRITTEN_PARTS, UNWRITTEN_BYTES_MAX):
            self._write(entries_max)

    def _write(self, entries_max: int | None = None) -> None:
        entries, self._unwritten = self._unwritten, b""
        try:
            file = self.handle.file or self.handle.reopen()
            self.handle.used = True
            if entries_max is not None and not self.is_preallocated:
                # Sparse: blocks are allocated when entries are written.
                file.truncate(entries_max * self.entry.size)
                self.is_preallocated = True
            if file.write_at(self._written * self.entry.size, entries) != len(entries):
                raise OSError(errno.ENOSPC, "a short write", self.handle.path)
        except OSError:
            self.count = self._written
            self._forget()
            self._read_last()
            raise
        self._written = self.count

    def _cleared(self) -> None:
        """Forget every entry; the file keeps its bytes until it is trimmed."""
        self._forget()
        self.count = self._written = 0
        self._unwritten = b""
        self.handle.reopen(create=True)
        self.is_preallocated = False

    @abstractmethod
    def _read_last(self) -> None:
        """Read what is kept in memory of the last entry."""

    def _read_one(self, number: int) -> tuple[int, int]:
        first, second = self.entry.unpack(self._entries(number, number + 1))
        return first, second

    def _entries(self, first: int, end: int) -> bytes:
        """The bytes of a range of entries, written or not."""
        size, written = self.entry.size, self._written
        entries = b""
        if first < written:
            entries = self.handle.reopen().read_at(first * size, (min(end, written) - first) * size)
        if end > written:
            entries += self._unwritten[max(first - written, 0) * size : (end - written) * size]
        return entries

    def _find(self, value: int, count: int) -> tuple[int, int] | None:
        """The last of `count` entries whose first field is <= `value`, which is below that of the last one.

        None before the first entry. Entries may have been appended since the last call, but none changed.
        """
        low, high, entries = self._warm
        if not low <= value < high:
            low, high, entries = self._cold
            if not low <= value < high:
                entries = self._block_of(value, count)
                if not entries:
                    return None
        unpack, size = self.entry.unpack_from, self.entry.size
        # The first entry is not above the value.
        number = bisect_right(range(1, len(entries) // size), value, key=lambda at: unpack(entries, at * size)[0])
        first, second = unpack(entries, number * size)
        return first, second

    def _forget(self) -> None:
        """The file is another one, or entries were removed."""
        self._warm = self._cold = _NOTHING
        self._firsts = _NO_FIRSTS

    def _block_of(self, value: int, count: int) -> bytes:
        """Read the block that holds the entry for a value; nothing before the first entry."""
        low, high, _ = self._warm
        warm = max(0, count - WARM_BYTES // self.entry.size)
        if value >= high or low == high:
            self._warm = self._read(warm, count)
            if value >= self._warm[0]:
                return self._warm[2]
        blocks = -(-warm // _BLOCK_ENTRIES)
        if blocks > len(self._firsts):
            self._firsts = self._firsts + array("q", [_UNKNOWN]) * (blocks - len(self._firsts))
        block = bisect_right(range(blocks), value, key=self._first_of) - 1
        if block < 0:
            return b""
        first = block * _BLOCK_ENTRIES
        # One more entry, which ends the block's range.
        self._cold = self._read(first, min(count, first + _BLOCK_ENTRIES + 1))
        return self._cold[2]

    def _first_of(self, block: int) -> int:
        first = self._firsts[block]
        if first < 0:
            first = self._firsts[block] = self._read_one(block * _BLOCK_ENTRIES)[0]
        return first

    def _read(self, first: int, end: int) -> Block:
        entries = self._entries(first, end)
        last = len(entries) - self.entry.size
        return self.entry.unpack_from(entries)[0], self.entry.unpack_from(entries, last)[0], entries
