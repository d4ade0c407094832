"""Checks the records that a follower fetched from its leader: batches with their offsets and epochs."""

from __future__ import annotations

from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    BatchHeader,
    crc_is_right,
    read_header,
)
from sordini.protocol.records.legacy import ENTRY_BYTES_MIN, message_header
from sordini.protocol.records.produce_validation import CheckedBatches

OFFSET_MAX: Final = 2**63 - 1
"""The largest log end offset."""


def check_fetched(records: memoryview) -> CheckedBatches:
    """The complete batches and messages at the beginning of `records`; a truncated last one is left out.

    Raises BrokerError CORRUPT_MESSAGE where a header is impossible, a CRC is wrong, or offsets do not rise.
    """
    batches: list[tuple[int, BatchHeader]] = []
    position, end, next_offset = 0, len(records), 0
    while end - position >= ENTRY_BYTES_MIN:
        header = _header_at(records, position, end - position)
        if header is None:
            break
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise _corrupt(position, f"offset {header.base_offset} where {next_offset} or more is expected")
        if not crc_is_right(records, position, header):
            raise _corrupt(position, "the CRC is wrong")
        batches.append((position, header))
        next_offset = header.base_offset + header.last_offset_delta + 1
        if next_offset > OFFSET_MAX:
            raise _corrupt(position, f"offset {next_offset - 1} is beyond all")
        position += header.size
    return CheckedBatches(records[:position], batches)


def _header_at(records: memoryview, position: int, room: int) -> BatchHeader | None:
    """The header at `position`, or None if the batch there is truncated."""
    if room >= HEADER_SIZE:
        header = read_header(records, position)
        if header.magic == CURRENT_MAGIC:
            if header.size < HEADER_SIZE:
                raise _corrupt(position, f"a batch of {header.size} bytes")
            return header if header.size <= room else None
    size = int.from_bytes(records[position + 8 : position + 12], signed=True) + LENGTH_PREFIX
    if size > room:
        return None
    message = message_header(records, position, room)
    if message is None:
        raise _corrupt(position, "neither a batch nor a message")
    return message


def _corrupt(position: int, why: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the leader sent, at byte {position}: {why}")
