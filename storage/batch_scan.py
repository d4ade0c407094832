"""Iterating over the batches in a segment's file by their headers, without decoding records.

Every scan stops at the first position without a whole, plausible batch. The caller tells the end of the log from
damage by comparing that position with the file's size.

A message of format 0 or 1 is returned as a batch of its own (`legacy.message_header`); after upgrades and downgrades a
log may hold all three formats. The scans are written for format 2 and try the others only where that fails.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, LENGTH_PREFIX, BatchHeader, read_header
from sordini.protocol.records.legacy import ENTRY_BYTES_MIN, first_offset, message_header
from sordini.storage.disk import File
from sordini.storage.open_files import Handle

_SPAN = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta: enough to find a batch, in a quarter of a header's time."""
_unpack_span = _SPAN.unpack_from
_SPAN_SIZE = _SPAN.size
_LENGTH = struct.Struct(">8xi")
LOOKUP_WINDOW = 4096
WALK_WINDOW = 64 * 1024
_LARGE_BATCH = 8 * 1024
"""After a batch of this size only the next one's header is read: what a larger window holds would be skipped."""


def find_batch(file: File, position: int, end: int, offset: int) -> tuple[int, int, int] | None:
    """(position, base offset, size) of the first batch from `position` on that ends at or after `offset`."""
    while end - position >= HEADER_SIZE:
        room = end - position
        window = file.read_at(position, min(LOOKUP_WINDOW, room))
        at = 0
        while len(window) - at >= _SPAN_SIZE:
            base, length, magic, delta = _unpack_span(window, at)
            size = length + LENGTH_PREFIX
            if magic != CURRENT_MAGIC or size < HEADER_SIZE or at + size > room:
                return _find_message(file, position + at, end, offset)
            if base + delta >= offset:
                return position + at, base, size
            at += size
        if at == 0:
            return None
        position += at
    return _find_message(file, position, end, offset) if position < end else None


def _find_message(file: File, position: int, end: int, offset: int) -> tuple[int, int, int] | None:
    """As `find_batch`, for old messages; a wrapper that is found is decompressed for its base offset."""
    for at, header in headers_in(file, position, end):
        if header.last_offset >= offset:
            if header.magic == CURRENT_MAGIC:
                return at, header.base_offset, header.size
            return at, first_offset(file.read_at(at, header.size), header), header.size
    return None


def batch_size(file: File, position: int) -> int:
    """The whole size of the batch that starts at `position`."""
    (length,) = _LENGTH.unpack(file.read_at(position, LENGTH_PREFIX))
    return int(length) + LENGTH_PREFIX


def headers(handle: Handle, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch between `position` and `end`; pins the file meanwhile."""
    file = handle.pin()
    try:
        yield from headers_in(file, position, end)
    finally:
        handle.unpin()


class Readable(Protocol):
    """What a scan needs of a file."""

    def read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`."""


class _Whole:
    """A file that was read whole."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]


def headers_of(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """As `headers`, of a short file's bytes."""
    return headers_in(_Whole(data), 0, len(data))


def headers_in(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """As `headers`, for a file that the caller keeps open."""
    size = LOOKUP_WINDOW
    while end - position >= HEADER_SIZE:
        window = file.read_at(position, min(size, end - position))
        at = 0
        while len(window) - at >= HEADER_SIZE:
            header = read_header(window, at)
            if not _is_plausible(header, end - position - at):
                message = message_header(window, at, end - position - at)
                if message is None:
                    return
                header = message
            yield position + at, header
            at += header.size
        if at == 0:
            return
        position += at
        # A ListOffsets by time read four windows of 64 KiB before it had its batch.
        size = LOOKUP_WINDOW if header.size >= _LARGE_BATCH else WALK_WINDOW
    yield from _last_messages(file, position, end)


def _last_messages(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """The messages in the last bytes of a file, when these are too few for a batch."""
    while end - position >= ENTRY_BYTES_MIN:
        message = message_header(file.read_at(position, end - position), 0, end - position)
        if message is None:
            return
        yield position, message
        position += message.size


def batches(handle: Handle, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every whole batch; pins the file meanwhile.

    Memory use is bounded by the largest batch that the file really holds, never by a length field.
    """
    file = handle.pin()
    try:
        yield from _batches_in(file, position, end)
    finally:
        handle.unpin()


def _batches_in(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    while end - position >= HEADER_SIZE:
        window = memoryview(file.read_at(position, min(16 * WALK_WINDOW, end - position)))
        at = 0
        while len(window) - at >= HEADER_SIZE:
            header = read_header(window, at)
            if not _is_plausible(header, end - position - at):
                message = message_header(window, at, end - position - at)
                if message is None:
                    return
                header = message
            batch = window[at : at + header.size]
            if len(batch) < header.size:
                if at:
                    break
                batch = memoryview(file.read_at(position, header.size))
                if len(batch) < header.size:
                    return
            yield position + at, header, batch
            at += header.size
        if at == 0:
            return
        position += at
    for at, header in _last_messages(file, position, end):
        yield at, header, memoryview(file.read_at(at, header.size))


def _is_plausible(header: BatchHeader, room: int) -> bool:
    return (
        HEADER_SIZE <= header.size <= room
        and header.magic == CURRENT_MAGIC
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
    )
