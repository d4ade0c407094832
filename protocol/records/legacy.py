"""Message formats 0 and 1: what clients older than 0.11 write and read, read. `legacy_writing.py` writes them.

    offset int64 | size int32 | CRC-32 uint32 | magic int8 | attributes int8 | [timestamp int64, format 1]
    key length int32, key | value length int32, value

There are no batches: a message set is a sequence of messages. A compressed set is one *wrapper*, a message whose value
is the compressed inner set and whose offset is that of the last inner message. Inner offsets of format 1 count from 0
(KIP-31), those of format 0 are absolute. A wrapper inside a wrapper is refused from a client, and read from a log to a
small depth, without recursion.

Only old clients and old logs use these formats: a loop in Python over the messages is fast enough.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    LENGTH_PREFIX,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    read_records,
)
from sordini.protocol.records.compression import LZ4, NO_CODEC, ZSTD, unknown_codec
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.protocol.records.lz4_checksums import lz4_with_frame_checksum
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, WorkBudget
from sordini.system.named_tuple import NamedTuple

PREFIX = struct.Struct(">qi")
_MAGIC_POSITION = 16
_ATTRIBUTES_POSITION = 17
_SIZE_MIN = 14
"""Of a message of format 0 without key and value, the smallest entry of any log."""
ENTRY_BYTES_MIN = _SIZE_MIN + LENGTH_PREFIX
DEPTH_SENT = 1
"""What Apache Kafka accepts: messages in a wrapper."""
DEPTH_READ = 4
"""Nesting of wrappers that is read from a log of another broker."""
_FIELDS_START = {0: 18, 1: 26}
"""Position of the key's length, by format, counted from the offset."""
CRC = struct.Struct(">I")
LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_PREFIX_AND_HEAD = struct.Struct(">qiIbB")


class RecordSetEntry(NamedTuple):
    """One message or batch of any format: its position, its whole size, and its format."""

    position: int
    size: int
    magic: int


def entries(buffer: bytes | memoryview) -> Iterator[RecordSetEntry]:
    """Yield the entries of a record set, up to the first incomplete one.

    Raises BrokerError CORRUPT_MESSAGE where a size or a format is impossible.
    """
    position = 0
    end = len(buffer)
    while end - position >= LENGTH_PREFIX:
        _, length = PREFIX.unpack_from(buffer, position)
        if length < _SIZE_MIN:
            raise corrupt(f"a length of {length} at byte {position}")
        if end - position <= _MAGIC_POSITION:
            return
        magic = buffer[position + _MAGIC_POSITION]
        if magic > CURRENT_MAGIC:
            raise corrupt(f"message format {magic} at byte {position}")
        if length > end - position - LENGTH_PREFIX:
            return
        yield RecordSetEntry(position, length + LENGTH_PREFIX, magic)
        position += length + LENGTH_PREFIX


def codec_of(buffer: bytes | memoryview, entry: RecordSetEntry) -> int:
    """The codec of a message of format 0 or 1; raises BrokerError for a codec that they do not have."""
    codec = buffer[entry.position + _ATTRIBUTES_POSITION] & CODEC_MASK
    if codec >= ZSTD:
        raise unknown_codec(codec)
    return codec


def message_header(buffer: bytes | memoryview, position: int, room: int) -> BatchHeader | None:
    """The message of format 0 or 1 at `position`, as the header of a batch; None if it cannot be one.

    It must fit into `room` bytes. A message is a batch of one record. Only the content of a wrapper has its base offset
    and record count: its header has the last offset alone, and a record count of -1. The CRC is not checked.
    """
    if room < ENTRY_BYTES_MIN or len(buffer) - position < ENTRY_BYTES_MIN:
        return None
    offset, length, crc, magic, attributes = _PREFIX_AND_HEAD.unpack_from(buffer, position)
    size = length + LENGTH_PREFIX
    if magic not in _FIELDS_START or not _FIELDS_START[magic] + 8 <= size <= room or offset < 0:
        return None
    timestamp: int = NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(buffer, position + _FIELDS_START[1] - 8)
    attributes &= CODEC_MASK | LOG_APPEND_TIME_BIT if magic else CODEC_MASK
    return BatchHeader(
        base_offset=offset,
        size=size,
        partition_leader_epoch=-1,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=-1 if attributes & CODEC_MASK else 1,
    )


def read_any(
    data: bytes | memoryview,
    header: BatchHeader,
    expanded_bytes_max: int = EXPANDED_BYTES_MAX,
    budget: WorkBudget = UNBOUNDED,
) -> list[Record]:
    """The records of one whole batch or message of any format that begins `data`; raises BrokerError."""
    if header.magic == CURRENT_MAGIC:
        return list(read_records(data, header, expanded_bytes_max=expanded_bytes_max, budget=budget))
    entry = RecordSetEntry(0, header.size, header.magic)
    return read_entry(data, entry, expanded_bytes_max, depth_max=DEPTH_READ, budget=budget)


def first_offset(data: bytes | memoryview, header: BatchHeader) -> int:
    """The offset of the first message in a message or wrapper that fills `data`; its last one if it is damaged."""
    if header.codec == NO_CODEC:
        return header.base_offset
    try:
        return read_any(data, header)[0].offset
    except BrokerError:
        return header.base_offset


def read_entry(
    buffer: bytes | memoryview,
    entry: RecordSetEntry,
    expanded_bytes_max: int,
    *,
    depth_max: int = DEPTH_SENT,
    budget: WorkBudget = UNBOUNDED,
) -> list[Record]:
    """Read a message of format 0 or 1, or those inside it, with absolute offsets.

    Raises BrokerError: CORRUPT_MESSAGE for a wrong CRC, INVALID_RECORD for an empty wrapper, or wrappers nested more
    than `depth_max` deep, and what `decompress` raises.
    """
    message, attributes = _read_message(memoryview(buffer)[entry.position : entry.position + entry.size])
    codec_of(buffer, entry)
    found: list[Record] = []
    pending = [(message, attributes, 0)]
    while pending:
        message, attributes, depth = pending.pop()
        if attributes & CODEC_MASK == NO_CODEC:
            found.append(message)
            continue
        if depth == depth_max:
            raise _invalid("a compressed message inside a compressed message")
        inner, expanded_bytes = _unwrapped(message, attributes, entry.magic, expanded_bytes_max, budget)
        expanded_bytes_max -= expanded_bytes
        pending += [(nested, inner_attributes, depth + 1) for nested, inner_attributes in reversed(inner)]
    return found


def _unwrapped(
    outer: Record, attributes: int, magic: int, expanded_bytes_max: int, budget: WorkBudget
) -> tuple[list[tuple[Record, int]], int]:
    """The messages in a wrapper with their attributes, and their expanded size in bytes."""
    codec = attributes & CODEC_MASK
    if outer.value is None:
        raise _invalid("a compressed message without a value")
    data = lz4_with_frame_checksum(outer.value) if codec == LZ4 and magic == 0 else outer.value
    expanded = decompress(codec, data, expanded_bytes_max, budget)
    inner = []
    for entry in entries(expanded):
        budget.spend(3 * RECORD_STEPS)
        if entry.magic != magic:
            raise _invalid(f"a message of format {entry.magic} inside one of format {magic}")
        codec_of(expanded, entry)
        inner.append(_read_message(memoryview(expanded)[entry.position : entry.position + entry.size]))
    if not inner:
        raise _invalid("a compressed message that holds none")
    return (_absolute(outer, attributes, inner) if magic else inner), len(expanded)


def _absolute(outer: Record, attributes: int, inner: list[tuple[Record, int]]) -> list[tuple[Record, int]]:
    """Give the messages inside a wrapper of format 1 their absolute offsets, and its time with LogAppendTime."""
    last = inner[-1][0].offset
    # Some producers, old librdkafka among them, leave the wrapper's offset 0; then the inner ones are absolute.
    if outer.offset != 0 and outer.offset < last:
        raise _invalid(f"a wrapper's offset {outer.offset} is below its last message's {last}")
    base = outer.offset - last if outer.offset else 0
    append_time = attributes & LOG_APPEND_TIME_BIT
    return [
        (
            message._replace(
                offset=base + message.offset,
                timestamp=outer.timestamp if append_time else message.timestamp,
            ),
            inner_attributes | append_time,
        )
        for message, inner_attributes in inner
    ]


def _read_message(message: memoryview) -> tuple[Record, int]:
    """Check and read one whole message, a wrapper without its content; return it and its attributes."""
    offset, _ = PREFIX.unpack_from(message)
    (crc,) = CRC.unpack_from(message, LENGTH_PREFIX)
    if zlib.crc32(message[_MAGIC_POSITION:]) != crc:
        raise corrupt("a message's CRC is wrong")
    magic = message[_MAGIC_POSITION]
    position = _FIELDS_START[magic]
    if len(message) < position + 8:
        raise corrupt(f"a message of format {magic} with {len(message)} bytes")
    timestamp: int = _TIMESTAMP.unpack_from(message, position - 8)[0] if magic else NO_TIMESTAMP
    key, position = _read_bytes(message, position)
    value, position = _read_bytes(message, position)
    if position != len(message):
        raise corrupt(f"{len(message) - position} bytes follow a message's value")
    return Record(offset, timestamp, key, value), message[_ATTRIBUTES_POSITION]


def _read_bytes(message: memoryview, position: int) -> tuple[bytes | None, int]:
    left = len(message) - position - 4
    if left < 0:
        raise corrupt("a message ends inside its value")
    (length,) = LENGTH.unpack_from(message, position)
    position += 4
    if length < 0:
        return None, position
    if length > left:
        raise corrupt(f"a length of {length} with {left} bytes left")
    return bytes(message[position : position + length]), position + length


def corrupt(why: str) -> BrokerError:
    """The error for bytes that are no message."""
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, why)


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)
