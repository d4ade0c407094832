"""Walking over a closed segment, batch by batch, in large reads.

Unlike the walks of `batch_scan`, which stop where the log seems to end, this one is strict: a closed segment that does
not hold whole, right batches up to its end is damaged, and must not be cleaned. Messages of formats 0 and 1 come as
batches of themselves, as they do there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sordini.protocol.crc import crc32c
from sordini.protocol.records.batch import (
    CHECKED_FROM,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    BatchHeader,
    crc_is_right,
    read_header,
)
from sordini.protocol.records.legacy import message_header
from sordini.storage import names
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.task import SegmentSpan
from sordini.storage.compaction.throttler import Throttler
from sordini.storage.disk import Disk, File
from sordini.system.named_tuple import NamedTuple

_PREFIX = struct.Struct(">8xi4xb")
"""Length and format: what an entry of every format begins with."""
_PREFIX_SIZE = _PREFIX.size
MARGIN_BYTES = 64
"""Bytes that may be read past each batch: the compiled record reader reads slightly beyond the end."""


class SegmentSource(NamedTuple):
    """The directory, buffer size and throttle for reading segments."""

    disk: Disk
    directory: str
    buffer_bytes: int
    throttler: Throttler

    def path(self, span: SegmentSpan) -> str:
        return f"{self.directory}/{names.file_name(span.base, names.LOG)}"


def batches(source: SegmentSource, span: SegmentSpan) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of everything in a segment, checked against its CRC; `MARGIN_BYTES` follow in memory.

    Raises DamagedSegment, which names the file and the position, and OSError.
    """
    file = source.disk.open(source.path(span), writable=False)
    try:
        yield from _batches_in(source, file, span)
    finally:
        file.close()


def _batches_in(source: SegmentSource, file: File, span: SegmentSpan) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    end = span.size
    offset = span.base
    position = 0
    window_bytes = source.buffer_bytes
    while position < end:
        window, held = _window(source, file, position, min(window_bytes, end - position), end)
        size = _PREFIX_SIZE
        at = 0
        while held - at >= _PREFIX_SIZE:
            length, magic = _PREFIX.unpack_from(window, at)
            size = length + LENGTH_PREFIX
            if not _PREFIX_SIZE < size <= end - position - at:
                raise DamagedSegment(file.path, position + at, f"{size} bytes do not fit the segment")
            if held - at < size:
                break
            batch = window[at : at + size]
            header = _header(batch, magic)
            if header is None:
                raise DamagedSegment(file.path, position + at, f"no valid batch in format {magic}")
            # The offset decides about records, and no checksum covers it.
            first, next_offset = header.base_offset, header.next_offset
            if not offset <= first < next_offset <= span.end_offset:
                raise DamagedSegment(file.path, position + at, f"offset {first} where {offset} is the lowest possible")
            offset = next_offset
            yield position + at, header, batch
            at += size
            size = _PREFIX_SIZE
        if at == 0 and held == end - position:
            raise DamagedSegment(file.path, position, f"{held} bytes are no batch")
        position += at
        # A batch may be larger than the window; its length was checked against the file above.
        window_bytes = max(source.buffer_bytes, size + MARGIN_BYTES)


def _window(source: SegmentSource, file: File, position: int, size: int, end: int) -> tuple[memoryview, int]:
    """A window of the file, and how many of its bytes may be used: the margin follows them."""
    window = file.read_at(position, size)
    if len(window) < size:
        raise DamagedSegment(file.path, position + len(window), "the file ends early")
    source.throttler.note(size)
    if position + size == end:
        return memoryview(b"".join((window, bytes(MARGIN_BYTES)))), size
    return memoryview(window), size - MARGIN_BYTES


def _header(batch: memoryview, magic: int) -> BatchHeader | None:
    """The header, or None when it is implausible or the CRC is wrong."""
    if magic == CURRENT_MAGIC:
        if len(batch) < HEADER_SIZE:
            return None
        header = read_header(batch)
        return header if crc32c(batch[CHECKED_FROM:]) == header.crc else None
    message = message_header(batch, 0, len(batch))
    return message if message is not None and crc_is_right(batch, 0, message) else None
