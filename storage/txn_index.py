"""A segment's `.txnindex`: the transactions that were aborted in it, in the order of their markers.

     0  int16  version, 0
     2  int64  producer id
    10  int64  first offset of the transaction
    18  int64  offset of its abort marker
    26  int64  last stable offset after the abort

All offsets are absolute. Apache Kafka's exists only when a transaction was aborted in the segment; `aborts` says when
an empty one is made.
"""

from __future__ import annotations

import errno
import struct

from sordini.storage.open_files import Handle
from sordini.storage.producer_state import AbortedTransaction

VERSION = 0
_ENTRY = struct.Struct(">hqqqq")


class TransactionIndex:
    """The entries of one file, which may not exist."""

    __slots__ = ("exists", "handle", "is_checked")

    def __init__(self, handle: Handle, *, exists: bool) -> None:
        self.handle = handle
        self.exists = exists
        self.is_checked = False
        """Whether it is known to be what the segment's markers say."""

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry, making the file if this is the first; raises OSError."""
        file = self.handle.reopen(create=True)
        self.exists = True
        entry = _ENTRY.pack(VERSION, *aborted)
        end = file.size() - file.size() % _ENTRY.size
        if file.write_at(end, entry) != len(entry):
            raise OSError(errno.ENOSPC, "a short write", self.handle.path)

    def create(self) -> None:
        """Make the file, if it is not there; raises OSError."""
        self.handle.reopen(create=True)
        self.exists = True

    def is_plausible(self, base: int, end_offset: int) -> bool:
        """Whether it may be the index of a segment of these offsets: whole, and its markers in it and rising."""
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

    def entries(self) -> list[AbortedTransaction]:
        """All entries; a torn last one is left out."""
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
        """Forget every entry, to be rebuilt."""
        self.is_checked = True
        if self.exists:
            self.handle.reopen().truncate(0)
