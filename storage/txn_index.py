"""A segment's `.txnindex`: the aborted transactions whose markers it holds, in the order of the markers.

     0  int16  version, 0
     2  int64  producer id
    10  int64  first offset of the transaction
    18  int64  offset of its abort marker
    26  int64  last stable offset after the abort

All offsets are absolute. Apache Kafka creates the file with the first aborted transaction; `aborted_transactions` says
when an empty one is created here.
"""

from __future__ import annotations

import errno
import struct
from bisect import bisect_left
from collections.abc import Iterator

from sordini.storage.open_files import Handle
from sordini.storage.producer_state import AbortedTransaction

VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
_ENTRIES_AT_ONCE = 32
"""Read by one call: a fetch needs the few that its records are of."""


class TransactionIndex:
    """The entries of one file, which may not exist."""

    __slots__ = ("exists", "handle", "is_checked")

    def __init__(self, handle: Handle, *, exists: bool) -> None:
        self.handle = handle
        self.exists = exists
        self.is_checked = False
        """Whether it has been checked against the segment."""

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry, creating the file for the first; raises OSError.

        The system may write a part only. The rest is written then, or the next call says why it cannot be: without an
        entry its log directory goes offline.
        """
        file = self.handle.reopen(create=True)
        self.exists = True
        entry = _ENTRY.pack(VERSION, *aborted)
        end = file.size() - file.size() % _ENTRY.size
        written = file.write_at(end, entry)
        if 0 < written < len(entry):
            written += file.write_at(end + written, entry[written:])
        if written != len(entry):
            raise OSError(errno.ENOSPC, "a short write", self.handle.path)

    def create(self) -> None:
        """Create the file, if it does not exist; raises OSError."""
        self.handle.reopen(create=True)
        self.exists = True

    def is_plausible(self, base: int, end_offset: int) -> bool:
        """Whether it may be the index of a segment of these offsets: whole entries, rising markers in that range."""
        file = self.handle.reopen()
        size = file.size()
        if size % _ENTRY.size:
            return False
        previous = base - 1
        for version, producer_id, first, last, stable in _ENTRY.iter_unpack(file.read_at(0, size)):
            rises = previous < last < end_offset and 0 <= first <= last and first <= stable <= end_offset
            if version != VERSION or producer_id < 0 or not rises:
                return False
            previous = last
        return True

    def entries_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """The entries whose marker is at `offset` or later, in order, read as they are taken.

        Markers rise, so the first is found by a few short reads: an index may have hundreds of thousands of entries,
        and readers of committed records ask at every fetch.
        """
        if not self.exists:
            return
        file = self.handle.reopen()
        count = file.size() // _ENTRY.size

        def marker_of(number: int) -> int:
            marker: int = _ENTRY.unpack(file.read_at(number * _ENTRY.size, _ENTRY.size))[3]
            return marker

        first = bisect_left(range(count), offset, key=marker_of)
        while first < count:
            end = min(count, first + _ENTRIES_AT_ONCE)
            for fields in _ENTRY.iter_unpack(file.read_at(first * _ENTRY.size, (end - first) * _ENTRY.size)):
                yield AbortedTransaction(*fields[1:])
            first = end

    def entries(self) -> list[AbortedTransaction]:
        """All entries, without a torn last one."""
        if not self.exists:
            return []
        file = self.handle.reopen()
        data = file.read_at(0, file.size() - file.size() % _ENTRY.size)
        return [AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(data)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at `offset` or later."""
        if self.exists:
            kept = sum(1 for aborted in self.entries() if aborted.last_offset < offset)
            self.handle.reopen().truncate(kept * _ENTRY.size)

    def clear(self) -> None:
        """Remove every entry, before a rebuild."""
        self.is_checked = True
        if self.exists:
            self.handle.reopen().truncate(0)
