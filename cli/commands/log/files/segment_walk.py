"""Reads a segment file entry by entry without trusting it: the walk under `log dump`, `log verify` and `log stats`.

It follows the lengths as Apache Kafka's reader does, so that both see the same entries in a damaged file: an
incomplete entry ends the walk, a length below that of an empty message is a fault.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import Final

from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, LENGTH_PREFIX
from sordini.storage.disk import File
from sordini.system.named_tuple import NamedTuple

MAGIC_AT: Final = 16
PREFIX_BYTES: Final = 18
"""Enough to see an entry's offset, length, format and, in the old ones, attributes."""
ENTRY_BYTES_MIN: Final = LENGTH_PREFIX + 14
WINDOW: Final = 1024 * 1024
_HEAD_SIZES: Final = {0: 26, 1: 34}
"""Of a message of format 0 or 1 without key and value; a batch has its header at least."""
_PREFIX: Final = struct.Struct(">qi")


class LogEntry(NamedTuple):
    """One batch, or one old-format message, and its position in the file."""

    position: int
    magic: int
    data: memoryview

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def is_batch(self) -> bool:
        """Whether it has the layout of a version 2 batch, even if its magic byte is higher."""
        return self.magic >= CURRENT_MAGIC


class SegmentWalk:
    """The entries of a file from a position on. At the end it has the position, and the fault if that is not the end.

    Memory is bounded by the largest entry in the file, not by a length field.
    """

    def __init__(self, file: File, position: int = 0, end: int | None = None) -> None:
        self._file = file
        self.position = position
        self.end = file.size() if end is None else min(end, file.size())
        self.fault: str | None = None
        self.is_torn = False
        """Whether the walk ended at what may be the beginning of a batch."""

    def __iter__(self) -> Iterator[LogEntry]:
        while self.end - self.position > MAGIC_AT:
            window = memoryview(self._file.read_at(self.position, min(WINDOW, self.end - self.position)))
            start, at = self.position, 0
            while len(window) - at > MAGIC_AT:
                size = LENGTH_PREFIX + _PREFIX.unpack_from(window, at)[1]
                magic = window[at + MAGIC_AT]
                if self._is_impossible(size, magic):
                    return
                if at + size > len(window):
                    break
                yield LogEntry(start + at, magic, window[at : at + size])
                at += size
                self.position = start + at
            if at == 0 and not (yield from self._large()):
                return
        if self.position < self.end:
            self.is_torn = True
            self.fault = f"{self.end - self.position} bytes are left, too few for a batch"

    def _large(self) -> Generator[LogEntry, None, bool]:
        """The entry at the position if it is larger than the window; False if the file does not hold it."""
        prefix = self._file.read_at(self.position, PREFIX_BYTES)
        left = self.end - self.position
        size = LENGTH_PREFIX + _PREFIX.unpack_from(prefix)[1] if len(prefix) > MAGIC_AT else left
        if size > left:
            self.is_torn = True
            self.fault = f"a batch of {size} bytes begins, and {left} are left in the file"
            return False
        data = memoryview(self._file.read_at(self.position, size))
        if len(data) < size:
            self.fault = "the file became shorter while it was read"
            return False
        yield LogEntry(self.position, prefix[MAGIC_AT], data)
        self.position += size
        return True

    def _is_impossible(self, size: int, magic: int) -> bool:
        least = HEADER_SIZE if CURRENT_MAGIC <= magic < 128 else _HEAD_SIZES.get(magic, ENTRY_BYTES_MIN)
        if size < least or magic >= 128:
            left = self.end - self.position
            self.fault = f"no batch begins here; the {left} bytes up to the end of the file cannot be read"
            return True
        return False


def is_zeros(file: File, position: int, end: int) -> bool:
    """Whether all bytes are zeros: space that was allocated and never written."""
    # A torn batch may begin with a few zeros, too: those of its offset.
    return all(not any(file.read_at(at, min(WINDOW, end - at))) for at in range(position, end, WINDOW))
