"""Message formats 0 and 1: what clients older than 0.11 write and read, converted to and from version 2.

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
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    read_header,
    read_records,
)
from sordini.protocol.records.compression import (
    EXPANDED_BYTES_MAX,
    LZ4,
    NO_CODEC,
    ZSTD,
    compress,
    decompress,
    lz4_with_format_0_checksum,
    lz4_with_frame_checksum,
    unknown_codec,
)
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, CpuTimeExceeded, WorkBudget

_PREFIX = struct.Struct(">qi")
_MAGIC_POSITION = 16
_ATTRIBUTES_POSITION = 17
_SIZE_MIN = 14
"""Of a message of format 0 without key and value, the smallest entry of any log."""
ENTRY_BYTES_MIN = _SIZE_MIN + LENGTH_PREFIX
DEPTH_SENT = 1
"""What Apache Kafka accepts: messages in a wrapper."""
DEPTH_READ = 4
"""Nesting of wrappers that is read from a log of another broker."""
WRAPPER_BYTES = 1024 * 1024
"""A batch that expands to more is sent to old clients in wrappers of at least this size each."""
UNLIMITED = 2**63 - 1
WHOLE_RECORDS_MAX = 10_000
"""In a compressed batch with more records, those before the requested offset are skipped."""
_FIELDS_START = {0: 18, 1: 26}
"""Position of the key's length, by format, counted from the offset."""
_CRC = struct.Struct(">I")
_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_HEADS = {0: struct.Struct(">bb"), 1: struct.Struct(">bbq")}
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
        _, length = _PREFIX.unpack_from(buffer, position)
        if length < _SIZE_MIN:
            raise _corrupt(f"a length of {length} at byte {position}")
        if end - position <= _MAGIC_POSITION:
            return
        magic = buffer[position + _MAGIC_POSITION]
        if magic > CURRENT_MAGIC:
            raise _corrupt(f"message format {magic} at byte {position}")
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
        pending += [(one, inner_attributes, depth + 1) for one, inner_attributes in reversed(inner)]
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
    for one in entries(expanded):
        budget.spend(3 * RECORD_STEPS)
        if one.magic != magic:
            raise _invalid(f"a message of format {one.magic} inside one of format {magic}")
        codec_of(expanded, one)
        inner.append(_read_message(memoryview(expanded)[one.position : one.position + one.size]))
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
    offset, _ = _PREFIX.unpack_from(message)
    (crc,) = _CRC.unpack_from(message, LENGTH_PREFIX)
    if zlib.crc32(message[_MAGIC_POSITION:]) != crc:
        raise _corrupt("a message's CRC is wrong")
    magic = message[_MAGIC_POSITION]
    position = _FIELDS_START[magic]
    if len(message) < position + 8:
        raise _corrupt(f"a message of format {magic} with {len(message)} bytes")
    timestamp: int = _TIMESTAMP.unpack_from(message, position - 8)[0] if magic else NO_TIMESTAMP
    key, position = _read_bytes(message, position)
    value, position = _read_bytes(message, position)
    if position != len(message):
        raise _corrupt(f"{len(message) - position} bytes follow a message's value")
    return Record(offset, timestamp, key, value), message[_ATTRIBUTES_POSITION]


def _read_bytes(message: memoryview, position: int) -> tuple[bytes | None, int]:
    left = len(message) - position - 4
    if left < 0:
        raise _corrupt("a message ends inside its value")
    (length,) = _LENGTH.unpack_from(message, position)
    position += 4
    if length < 0:
        return None, position
    if length > left:
        raise _corrupt(f"a length of {length} with {left} bytes left")
    return bytes(message[position : position + length]), position + length


def _corrupt(why: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, why)


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)


# -- writing


def down_convert(
    batches: bytes | memoryview,
    magic: int,
    *,
    start: int = 0,
    bytes_max: int = UNLIMITED,
    expanded_bytes_max: int = EXPANDED_BYTES_MAX,
    budget: WorkBudget = UNBOUNDED,
) -> bytes:
    """Rewrite batches of a log in format 0 or 1, for Fetch versions 0-1 or 2-3.

    Offsets stay; headers and control batches are left out. Records below `start` are left out of an uncompressed
    batch, because an old client takes every message there as requested; a wrapper stays whole. Batches whose format is
    old enough are copied. A truncated last batch is dropped. The result ends with the message or wrapper that reaches
    `bytes_max`. Raises BudgetExceeded when `budget` is spent, and BrokerError:
    UNSUPPORTED_COMPRESSION_TYPE for zstd, which the old formats do not have, and for damaged records.
    """
    assert magic in {0, 1}, magic
    view = memoryview(batches)
    parts: list[bytes] = []
    size = 0
    for entry in entries(view):
        piece = view[entry.position : entry.position + entry.size]
        budget.spend(RECORD_STEPS)
        if entry.magic <= magic:
            made: Iterable[bytes] = [bytes(piece)]
        elif entry.magic == CURRENT_MAGIC:
            made = _batch_as_messages(piece, magic, start, expanded_bytes_max, budget)
        else:
            records = read_entry(view, entry, expanded_bytes_max, depth_max=DEPTH_READ, budget=budget)
            made = _in_wrappers(records, magic, codec_of(view, entry), start, budget)
        try:
            for part in made:
                parts.append(part)
                size += len(part)
                if size >= bytes_max:
                    return b"".join(parts)
        except CpuTimeExceeded:
            if not parts:
                raise
            break  # The consumer continues from there.
        except struct.error as problem:
            raise _corrupt(f"an offset or a time is beyond 64 bits: {problem}") from problem
    return b"".join(parts)


def _batch_as_messages(
    batch: memoryview, magic: int, start: int, expanded_bytes_max: int, budget: WorkBudget
) -> Iterator[bytes]:
    if len(batch) < HEADER_SIZE:
        raise _corrupt(f"a batch of {len(batch)} bytes")
    header = read_header(batch)
    if header.is_control:
        return
    if header.codec >= ZSTD:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.codec} has no message format {magic}")
    # An old client skips the earlier messages of a wrapper, so what fits into one wrapper is sent whole.
    skipped = start if header.record_count > WHOLE_RECORDS_MAX else 0
    records = read_records(batch, header, expanded_bytes_max=expanded_bytes_max, budget=budget, start=skipped)
    yield from _in_wrappers(records, magic, header.codec, start, budget, log_append_time=header.is_log_append_time)


def _in_wrappers(
    records: Iterable[Record],
    magic: int,
    codec: int,
    start: int,
    budget: WorkBudget,
    *,
    log_append_time: bool = False,
) -> Iterator[bytes]:
    """The records as messages or, compressed, in wrappers; those without a record from `start` on are left out."""
    taken: list[Record] = []
    size = 0
    for record in records:
        budget.spend(2 * RECORD_STEPS)
        if codec == NO_CODEC:
            if record.offset >= start:
                yield write_messages([record], magic, log_append_time=log_append_time)
            continue
        taken.append(record)
        size += ENTRY_BYTES_MIN + len(record.key or b"") + len(record.value or b"")
        if size >= WRAPPER_BYTES:
            if record.offset >= start:
                yield write_messages(taken, magic, codec=codec, log_append_time=log_append_time, budget=budget)
            taken, size = [], 0
    if taken:
        yield write_messages(taken, magic, codec=codec, log_append_time=log_append_time, budget=budget)


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
    prefix = _PREFIX.pack(record.offset, len(content) + 4)
    return b"".join((prefix, _CRC.pack(zlib.crc32(content)), content))


def _sized(value: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if value is None else _LENGTH.pack(len(value)) + value
