"""The batches and old messages of a fetched record set, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, LENGTH_PREFIX, BatchHeader, read_header
from sordini.protocol.records.legacy import message_header

_MAGIC_POSITION = 16


class Batch(NamedTuple):
    """A whole batch of format 2, or a message or wrapper of format 0 or 1, and where it begins."""

    position: int
    header: BatchHeader


class Unreadable(Exception):
    """There is no valid batch where one should begin, so the next batch cannot be found either."""


def whole_batches(records: memoryview) -> Iterator[Batch]:
    """Yield the batches of a record set up to the first incomplete one. CRCs and content are not checked.

    Raises Unreadable where a header is impossible, or offsets do not rise.
    """
    position = next_offset = 0
    end = len(records)
    while end - position > _MAGIC_POSITION:
        header = _header_at(records, position, end - position)
        if header is None:
            return
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise Unreadable(
                f"a batch of offsets {header.base_offset} to {header.last_offset} follows {next_offset - 1}"
            )
        yield Batch(position, header)
        next_offset = header.next_offset
        position += header.size


def _header_at(records: memoryview, position: int, room: int) -> BatchHeader | None:
    """The header at `position`; None if it is incomplete."""
    magic = records[position + _MAGIC_POSITION]
    if magic > CURRENT_MAGIC:
        raise Unreadable(f"message format {magic}")
    if magic == CURRENT_MAGIC and room >= HEADER_SIZE:
        header = read_header(records, position)
        if header.size < HEADER_SIZE:
            raise Unreadable(f"a batch of {header.size} bytes")
        return header if header.size <= room else None
    size = int.from_bytes(records[position + 8 : position + LENGTH_PREFIX], signed=True) + LENGTH_PREFIX
    if size > room:
        return None
    message = message_header(records, position, room)
    if message is None:
        raise Unreadable(f"no message of format {magic} has {size} bytes")
    return message
