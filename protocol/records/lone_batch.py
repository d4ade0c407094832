"""A batch of one uncompressed record without headers, as coordinators write them for each change of a state.

The bytes are those of `batch.build_batch`, which takes three times as long: it is general in all that is fixed here.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from sordini.protocol.crc import crc32c
from sordini.protocol.records.batch import (
    CHECKED_FROM,
    CRC_POSITION,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    pack_header,
)
from sordini.protocol.records.varint import varint

_CRC: Final = Struct(">I")
_START: Final = b"\0\0\0"
"""Attributes, and both deltas."""
_NULL: Final = varint(-1)
_NO_HEADERS: Final = b"\0"
_NO_EPOCH: Final = -1


def lone_batch(
    key: bytes,
    value: bytes | None,
    timestamp_ms: int,
    *,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """One record at offset 0."""
    sized = (_NULL,) if value is None else (varint(len(value)), value)
    record = b"".join((_START, varint(len(key)), key, *sized, _NO_HEADERS))
    prefix = varint(len(record))
    size = HEADER_SIZE + len(prefix) + len(record)
    fields = (attributes, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, base_sequence, 1)
    batch = bytearray().join(
        (pack_header(0, size - LENGTH_PREFIX, _NO_EPOCH, CURRENT_MAGIC, 0, *fields), prefix, record)
    )
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_FROM:]))
    return batch
