"""The dearest records that fit into a request of 1 MiB: record sets for a produce request, one function each.

Every function returns the bytes of one partition's record set. The sizes that are given are what they expand to, or how
many records they hold; with the defaults each set is smaller than 1 MiB. The CRCs are right, so a broker finds out
what they cost only when it opens them. Results are cached, as some take a second to make.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

from sordini.protocol.records import legacy
from sordini.protocol.records.batch import BatchHeader, Record, assemble_batch, build_batch
from sordini.protocol.records.compression import (
    GZIP,
    LZ4,
    NO_CODEC,
    SNAPPY,
    ZSTD,
    compress,
)
from sordini.protocol.records.lz4_checksums import lz4_with_format_0_checksum
from sordini.protocol.records.varint import varint

MIB = 1024 * 1024
EVERY_CODEC = (NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD)
EVERY_COMPRESSION = (GZIP, SNAPPY, LZ4, ZSTD)
TINY_RECORDS = {NO_CODEC: 90_000, GZIP: 500_000, SNAPPY: 150_000, LZ4: 140_000, ZSTD: 900_000}
"""How many of the smallest records, by codec, make less than 1 MiB of three shapes, with a key."""
TIMESTAMP = 1_700_000_000_000
_MESSAGE_V1 = struct.Struct(">bbq")
_MESSAGE_V0 = struct.Struct(">bb")


@lru_cache(maxsize=32)
def bomb(
    codec: int = ZSTD, expanded_bytes: int = 62 * MIB, *, key: bytes | None = b"k", level: int | None = None
) -> bytes:
    """One record whose value is zeros: the fewest bytes for the most output."""
    if codec == SNAPPY:
        expanded_bytes = min(expanded_bytes, 20 * MIB)  # It expands 21 times at most.
    if codec == LZ4:
        expanded_bytes = min(expanded_bytes, 62 * MIB)  # 255 times.
    return build_batch([Record(0, TIMESTAMP, key, bytes(expanded_bytes))], codec=codec, codec_level=level)


@lru_cache(maxsize=8)
def noise(expanded_bytes: int = 40 * MIB, codec: int = ZSTD) -> bytes:
    """Few kinds of bytes, repeated far apart: expands well, and is slow to compress with another codec."""
    seed = b"".join(struct.pack(">Q", number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) for number in range(16 * 1024))
    value = seed * (expanded_bytes // len(seed))
    return build_batch([Record(0, TIMESTAMP, b"k", value)], codec=codec)


@lru_cache(maxsize=4)
def endless_zstd(expanded_bytes: int = 8 * 1024 * MIB) -> bytes:
    """A zstd frame of run-length blocks: four bytes for 128 KiB, so that 256 KiB expand to 8 GiB."""
    magic, descriptor, window = b"\x28\xb5\x2f\xfd", b"\x00", b"\x58"
    count = max(expanded_bytes // (128 * 1024), 1)
    run = struct.pack("<I", (128 * 1024) << 3 | 1 << 1)[:3] + b"\x00"
    last = struct.pack("<I", (128 * 1024) << 3 | 1 << 1 | 1)[:3] + b"\x00"
    body = magic + descriptor + window + run * (count - 1) + last
    return bytes(assemble_batch(_header(1, ZSTD), body))


@lru_cache(maxsize=16)
def tiny_records(count: int | None = None, codec: int = ZSTD, *, key: bool = False, shapes: int = 1) -> bytes:
    """The smallest possible records, without a key unless one is given; as many as fit, unless a count is given.

    With more than one shape neighbours differ in size, so that no run of alike records can be checked at once.
    """
    count = TINY_RECORDS[codec] if count is None else count
    body = tiny_body(count, key=key, shapes=shapes)
    return bytes(assemble_batch(_header(count, codec), compress(codec, body)))


@lru_cache(maxsize=8)
def tiny_body(count: int, *, key: bool = False, shapes: int = 1) -> bytes:
    """The records of `tiny_records`, expanded."""
    key_field = varint(1) + b"k" if key else varint(-1)
    tails = [key_field + varint(size) + bytes(size) + b"\x00" for size in range(shapes)]
    tails[0] = key_field + varint(-1) + b"\x00"
    records = []
    for delta in range(count):
        content = b"\x00\x00" + varint(delta) + tails[delta % shapes]
        records.append(varint(len(content)) + content)
    return b"".join(records)


def tiny_plain(size_max: int = MIB - 1024, *, key: bool = False, shapes: int = 3) -> bytes:
    """As many small records without compression as fit: what a broker reads of every producer."""
    return tiny_records(size_max // (11 + 2 * key + shapes // 2), NO_CODEC, key=key, shapes=shapes)


@lru_cache(maxsize=4)
def last_is_wrong(size_max: int = MIB - 1024) -> bytes:
    """As `tiny_plain`, the last record's length being wrong: everything before it is read in vain, twice."""
    count = size_max // 11
    body = tiny_body(count, shapes=3)
    return bytes(assemble_batch(_header(count, NO_CODEC), body[:-1] + b"\x02"))


@lru_cache(maxsize=4)
def many_headers(size_max: int = MIB - 1024) -> bytes:
    """One record of headers with empty names."""
    count = (size_max - 100) // 2
    content = b"\x00\x00\x00" + varint(1) + b"k" + varint(-1) + varint(count) + bytes(count * 2)
    return bytes(assemble_batch(_header(1, NO_CODEC), varint(len(content)) + content))


@lru_cache(maxsize=8)
def old_messages(size_max: int = MIB - 1024, magic: int = 1) -> bytes:
    """The smallest messages of format 0 or 1, one after another (Produce v0 to v2)."""
    one = _message(0, b"", magic, 0)
    return one * (size_max // len(one))


@lru_cache(maxsize=16)
def wrapper(codec: int = GZIP, magic: int = 1, messages: int = 150_000) -> bytes:
    """One compressed message of format 0 or 1 that holds many of the smallest ones (Produce v0 to v2)."""
    if magic == 0:
        inner = _message(0, b"", 0, 0) * messages
    else:
        content = _MESSAGE_V1.pack(1, 0, TIMESTAMP) + struct.pack(">ii", -1, 0)
        tail = struct.pack(">I", zlib.crc32(content)) + content
        inner = b"".join(struct.pack(">qi", number, len(tail)) + tail for number in range(messages))
    return _wrapped(inner, codec, magic, messages - 1)


@lru_cache(maxsize=8)
def deep_wrappers(depth: int = 4, codec: int = GZIP, magic: int = 1, messages: int = 100_000) -> bytes:
    """Wrappers in wrappers: refused from a client, read from a log to a depth of four."""
    data = wrapper(codec, magic, messages)
    for _ in range(depth - 1):
        data = _wrapped(data, codec, magic, messages - 1)
    return data


def _wrapped(inner: bytes, codec: int, magic: int, last_offset: int) -> bytes:
    data = compress(codec, inner)
    if codec == LZ4 and magic == 0:
        data = lz4_with_format_0_checksum(data)
    return _message(last_offset, data, magic, codec)


def _message(offset: int, value: bytes, magic: int, attributes: int) -> bytes:
    head = _MESSAGE_V1.pack(1, attributes, TIMESTAMP) if magic else _MESSAGE_V0.pack(0, attributes)
    content = head + struct.pack(">ii", -1, len(value)) + value
    made = struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content
    assert next(legacy.entries(made)).size == len(made)
    return made


def _header(count: int, codec: int) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        size=0,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=TIMESTAMP,
        max_timestamp=TIMESTAMP,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
