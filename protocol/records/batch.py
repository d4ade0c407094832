"""Version 2 record batches: the 61-byte header read in place, and whole batches built and read.

    0  base offset             int64   set by the broker, outside the CRC
    8  length                  int32   bytes after this field
   12  partition leader epoch  int32   set by the broker, outside the CRC
   16  magic                   int8    2
   17  CRC-32C                 uint32  of everything from byte 21 on
   21  attributes              int16   codec (3 bits), LogAppendTime, transactional, control
   23  last offset delta       int32
   27  base timestamp          int64   ms; records have deltas to it
   35  max timestamp           int64   ms
   43  producer id             int64   -1 when not idempotent
   51  producer epoch          int16
   53  base sequence           int32
   57  record count            int32
   61  records, compressed as one block when the codec is not 0

The broker's hot path only reads the header and writes its first fields; records are built and read here for
batches of the broker itself, for conversions, and for tests. No length is trusted: reading raises BrokerError with
the code that Apache Kafka gives for the same bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from sordini.protocol.crc import crc32c
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.compression import NO_CODEC, compress
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint, varint
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget
from sordini.system.named_tuple import NamedTuple

HEADER_SIZE = 61
LENGTH_PREFIX = 12
"""Bytes that the length field does not count: the base offset and the length itself."""
CRC_POSITION = 17
CHECKED_FROM = 21
"""The first byte that the CRC covers."""
CURRENT_MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

NO_TIMESTAMP = -1
INT32_MAX = 2**31 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_NULL_LENGTH = varint(-1)
_CHECKED_FIELDS = struct.Struct(">hiqqqhii")
_FROM_ATTRIBUTES = struct.Struct(">hiqqqhi")
_ATTRIBUTES = struct.Struct(">h")
EPOCH_POSITION = 12
"""Of the partition leader epoch."""
_MAGIC_POSITION = 16
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35

unpack_header = _HEADER.unpack_from
"""The fields of `BatchHeader`, except that the second one is the length: the size less LENGTH_PREFIX."""
pack_header = _HEADER.pack
pack_offset = _OFFSET.pack_into
pack_epoch = _EPOCH.pack_into
_HEADER_SPACE = bytes(HEADER_SIZE)
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The fields of one batch's header; `size` counts the whole batch, the first 12 bytes included."""

    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; they wrap to 0 after 2^31 - 1. -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (ms). Invalid UTF-8 in a header's key becomes surrogates."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header at `position`. Checks only that 61 bytes are there, else BrokerError CORRUPT_MESSAGE."""
    try:
        offset, length, epoch, magic, crc, attributes, last, base, greatest, producer, generation, sequence, count = (
            unpack_header(buffer, position)
        )
    except struct.error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch header at byte {position}") from None
    size = length + LENGTH_PREFIX
    # `tuple.__new__` costs half of the class's own constructor.
    return _new(
        BatchHeader,
        (offset, size, epoch, magic, crc, attributes, last, base, greatest, producer, generation, sequence, count),
    )


def crc_is_right(buffer: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> bool:
    """Whether the batch's CRC is right; the whole batch must be in `buffer`.

    CRC-32C, and in the messages of formats 0 and 1 (`legacy.message_header`) CRC-32 from the format on.
    """
    if header.magic != CURRENT_MAGIC:
        return zlib.crc32(memoryview(buffer)[position + _MAGIC_POSITION : position + header.size]) == header.crc
    return crc32c(memoryview(buffer)[position + CHECKED_FROM : position + header.size]) == header.crc


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the offset and epoch that the leader assigns to a batch; both are outside its CRC."""
    pack_offset(buffer, position, base_offset)
    pack_epoch(buffer, position + EPOCH_POSITION, leader_epoch)


def stamp_producer(
    batch: bytearray | memoryview, producer_id: int, producer_epoch: int, sequence: int, *, transactional: bool
) -> None:
    """Make a whole batch a producer's own, as it sends it. Without idempotence all three numbers are -1.

    Only the header and its CRC change; of the attributes the codec is kept.
    """
    header = read_header(batch)
    pack_offset(batch, 0, 0)
    pack_epoch(batch, EPOCH_POSITION, -1)
    attributes = header.attributes & CODEC_MASK | (TRANSACTIONAL_BIT if transactional else 0)
    times = header.base_timestamp, header.max_timestamp
    _FROM_ATTRIBUTES.pack_into(
        batch, CHECKED_FROM, attributes, header.last_offset_delta, *times, producer_id, producer_epoch, sequence
    )
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_FROM:]))


def stamp_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Set LogAppendTime: the attribute bit, the max timestamp and the CRC. Records do not change."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_BIT)
    stamp_max_timestamp(buffer, position, timestamp_ms)


def stamp_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Write the batch's max timestamp and its new CRC."""
    size = read_header(buffer, position).size
    _OFFSET.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    checked = memoryview(buffer)[position + CHECKED_FROM : position + size]
    _CRC.pack_into(buffer, position + CRC_POSITION, crc32c(checked))


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = NO_CODEC,
    codec_level: int | None = None,
    base_offset: int = 0,
    end_offset: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    budget: WorkBudget = UNBOUNDED,
) -> bytes:
    """Build one batch. The records' offsets must increase from `base_offset` on; gaps are kept.

    `end_offset` is where the next batch begins: right behind the last record by default.
    With `log_append_time` the last record's timestamp is the batch's.
    """
    assert records, "a batch is built of at least one record"
    base_timestamp = records[0].timestamp
    body = bytearray()
    previous = base_offset - 1
    for record in records:
        assert record.offset > previous, f"offset {record.offset} does not follow {previous}"
        previous = record.offset
        _write_record(body, record, record.timestamp - base_timestamp, record.offset - base_offset)
    attributes = codec & CODEC_MASK
    attributes |= LOG_APPEND_TIME_BIT if log_append_time else 0
    attributes |= TRANSACTIONAL_BIT if transactional else 0
    attributes |= CONTROL_BIT if control else 0
    header = BatchHeader(
        base_offset=base_offset,
        size=0,
        partition_leader_epoch=leader_epoch,
        magic=CURRENT_MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=(previous if end_offset is None else end_offset - 1) - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=records[-1].timestamp if log_append_time else max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return bytes(assemble_batch(header, compress(codec, body, level=codec_level, budget=budget)))


def assemble_batch(header: BatchHeader, *body: bytes | bytearray | memoryview) -> bytearray:
    """Write a header before a (compressed) body, which may be in parts: magic, size and CRC are computed.

    The header's other fields are copied.
    """
    batch = bytearray().join((_HEADER_SPACE, *body))
    _CHECKED_FIELDS.pack_into(batch, CHECKED_FROM, *header[5:])
    crc = crc32c(memoryview(batch)[CHECKED_FROM:])
    length = len(batch) - LENGTH_PREFIX
    _HEADER.pack_into(
        batch, 0, header.base_offset, length, header.partition_leader_epoch, CURRENT_MAGIC, crc, *header[5:]
    )
    return batch


def _write_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    headers = record.headers
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta), *_sized(record.key), *_sized(record.value)]
    parts.append(varint(len(headers)))
    for key, value in headers:
        parts += (*_sized(key.encode(errors="surrogateescape")), *_sized(value))
    content = b"".join(parts)
    out += varint(len(content))
    out += content


def _sized(value: bytes | None) -> tuple[bytes, bytes]:
    return (_NULL_LENGTH, b"") if value is None else (varint(len(value)), value)


def read_records(
    batch: bytes | bytearray | memoryview,
    header: BatchHeader,
    *,
    expanded_bytes_max: int = EXPANDED_BYTES_MAX,
    budget: WorkBudget = UNBOUNDED,
    start: int = 0,
) -> Iterator[Record]:
    """Yield the records of one whole batch, which starts at byte 0 of `batch`; those below `start` are skipped.

    Decompresses to at most `expanded_bytes_max` bytes. Raises BrokerError: INVALID_RECORD where records and
    header disagree, and what `decompress` raises.
    """
    body = bytes(memoryview(batch)[HEADER_SIZE : header.size])
    if header.codec != NO_CODEC:
        body = decompress(header.codec, body, expanded_bytes_max, budget)
    position = skipped = 0
    if start > header.base_offset:
        skipped, position = _skip(body, header, start)
    for _ in range(header.record_count - skipped):
        try:
            record, position = _read_record(body, position, header)
        except (IndexError, ValueError) as error:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"a record is damaged: {error}") from None
        yield record
    if position != len(body):
        raise BrokerError(ErrorCode.INVALID_RECORD, f"{len(body) - position} bytes follow the last record")


def _skip(body: bytes, header: BatchHeader, start: int) -> tuple[int, int]:
    """How many records are below `start`, and where the next one begins; raises BrokerError as `read_records`."""
    position = 0
    delta = start - header.base_offset
    try:
        for number in range(header.record_count):
            length, at = read_varint(body, position)
            time_end = read_varint(body, at + 1, VARLONG_BYTES_MAX)[1]
            if length < 0 or read_varint(body, time_end)[0] >= delta:
                return number, position
            position = at + length
    except (IndexError, ValueError) as error:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"a record is damaged: {error}") from None
    return header.record_count, position


def _read_record(body: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = read_varint(body, position)
    end = position + length
    if length < 0 or end > len(body):
        raise ValueError(f"a length of {length} at byte {position}")
    timestamp_delta, position = read_varint(body, position + 1, VARLONG_BYTES_MAX)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    count, position = read_varint(body, position)
    # A header takes at least two bytes: a count that cannot fit is refused before the loop.
    if count < 0 or count > (end - position) // 2:
        raise ValueError(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        if name is None:
            raise ValueError("a header without a key")
        content, position = _read_bytes(body, position, end)
        headers.append((name.decode(errors="surrogateescape"), content))
    if position != end:
        raise ValueError(f"a record ends at byte {position}, its length says {end}")
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    if not -(2**63) <= timestamp < 2**63:
        raise ValueError(f"a timestamp of {timestamp}")
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), end


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    # Any length below 0 is null, as Apache Kafka reads it.
    if length < 0:
        return None, position
    if length > end - position:
        raise ValueError(f"a length of {length} with {end - position} bytes left")
    return body[position : position + length], position + length
