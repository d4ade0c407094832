"""Message formats 0 and 1, written: for old clients, and by tests for old logs. The layout is in `legacy.py`."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from sordini.protocol.records.batch import LOG_APPEND_TIME_BIT, Record
from sordini.protocol.records.compression import LZ4, NO_CODEC, compress
from sordini.protocol.records.legacy import CRC, LENGTH, PREFIX
from sordini.protocol.records.lz4_checksums import lz4_with_format_0_checksum
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget

_HEADS = {0: struct.Struct(">bb"), 1: struct.Struct(">bbq")}


def write_messages(
    records: Sequence[Record],
    magic: int,
    *,
    codec: int = NO_CODEC,
    codec_level: int | None = None,
    log_append_time: bool = False,
    budget: WorkBudget = UNBOUNDED,
) -> bytes:
    """Write a message set of format 0 or 1; compressed records go into one wrapper. Headers are left out."""
    if not records:
        return b""
    attributes = LOG_APPEND_TIME_BIT if log_append_time and magic else 0
    if codec == NO_CODEC:
        return b"".join(_message(record, magic, attributes) for record in records)
    first = records[0].offset if magic else 0
    inner = b"".join(_message(record._replace(offset=record.offset - first), magic, attributes) for record in records)
    data = compress(codec, inner, level=codec_level, budget=budget)
    if codec == LZ4 and magic == 0:
        data = lz4_with_format_0_checksum(data)
    timestamp = max(record.timestamp for record in records)
    return _message(Record(records[-1].offset, timestamp, None, data), magic, attributes | codec)


def _message(record: Record, magic: int, attributes: int) -> bytes:
    fields = (magic, attributes, record.timestamp) if magic else (magic, attributes)
    content = b"".join((_HEADS[magic].pack(*fields), _sized(record.key), _sized(record.value)))
    prefix = PREFIX.pack(record.offset, len(content) + 4)
    return b"".join((prefix, CRC.pack(zlib.crc32(content)), content))


def _sized(value: bytes | None) -> bytes:
    return LENGTH.pack(-1) if value is None else LENGTH.pack(len(value)) + value
