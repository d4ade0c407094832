"""A segment's `.txnindex`: the transactions that were aborted in it, in the order of their markers.

     0  int16  version, 0
     2  int64  producer id
    10  int64  first offset of the transaction
    18  int64  offset of its abort marker
    26  int64  last stable offset after the abort

All offsets are absolute. The file exists only when a transaction was aborted in the segment.
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

    __slots__ = ("exists", "handle")

    def __init__(self, handle: Handle, *, exists: bool) -> None:
        self.handle = handle
        self.exists = exists

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry, making the file if this is the first; raises OSError."""
        file = self.handle.reopen(create=True)
        self.exists = True
        entry = _ENTRY.pack(VERSION, *aborted)
        end = file.size() - file.size() % _ENTRY.size
        if file.write_at(end, entry) != len(entry):
            raise OSError(errno.ENOSPC, "a short write", self.handle.path)

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
        if self.exists:
            self.handle.reopen().truncate(0)
