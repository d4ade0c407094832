"""Searching the entries of an index file, which rise in their first field, with few reads.

    |----- cold: blocks of 512 entries -----|-- warm: the last 8 KiB when it was read --| entries appended since |

A search begins in the warm section: nearly all lookups are near the end of the log, and a plain binary search would
begin each in the middle of the file, on pages that may have left the page cache (KAFKA-6432). Only old values touch
the cold part. There the first value of each block is remembered once it was read, so a lookup at random soon costs
one read, whatever the size of the index. The last warm and the last cold block are kept: they serve sequential readers.

Read with pread, never through a memory map: a page which a failing disk cannot read kills the process.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import ClassVar

from sordini.storage.open_files import Handle

WARM_BYTES = 8192
_BLOCK_ENTRIES = 512
_UNKNOWN = -1

Block = tuple[int, int, bytes]
"""The first value, the value at which the next block begins, and the entries."""
_NOTHING: Block = (0, 0, b"")
_NO_FIRSTS = array("q")
"""Replaced, never changed: most indexes are never searched."""


class IndexEntries:
    """The entries of one file, whose first fields are never negative."""

    __slots__ = ("_cold", "_firsts", "_warm", "handle")

    entry: ClassVar[struct.Struct]
    """The two fields of an entry."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self._warm = self._cold = _NOTHING
        self._firsts = _NO_FIRSTS

    def _read_one(self, number: int) -> tuple[int, int]:
        size = self.entry.size
        first, second = self.entry.unpack(self.handle.reopen().read_at(number * size, size))
        return first, second

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
        size = self.entry.size
        entries = self.handle.reopen().read_at(first * size, (end - first) * size)
        last = len(entries) - size
        return self.entry.unpack_from(entries)[0], self.entry.unpack_from(entries, last)[0], entries
