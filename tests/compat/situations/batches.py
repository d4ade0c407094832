"""Record batches and message sets made by hand, so that any of their fields may lie."""

import struct
import zlib
from typing import Any

from crc32c import crc32c

from tests.compat.situations.definitions import Values, varint

THEN = 1_700_000_000_000
"""The timestamp of every record: fixed, so that answers may be compared byte for byte."""
CONTROL = 0x20
"""The attribute of a batch that ends a transaction."""


def zigzag(value: int) -> bytes:
    return varint((value << 1 ^ value >> 63) & (2**64 - 1))


def record(
    value: bytes | None,
    *,
    key: bytes | None = b"k",
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    length: int | None = None,
    header_count: int = 0,
) -> bytes:
    """One v2 record; length and header_count may claim what is not there."""
    body = b"\x00" + zigzag(timestamp_delta) + zigzag(offset_delta)
    for part in (key, value):
        body += zigzag(-1) if part is None else zigzag(len(part)) + part
    body += zigzag(header_count)
    return zigzag(len(body) if length is None else length) + body


def batch(values: int | list[bytes] = 1, **fields: Any) -> bytes:
    """A v2 batch of so many small records, or of these record bytes.

    Header fields are set by name: base_offset, size, leader_epoch, magic, crc, attributes,
    last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count;
    payload replaces the record bytes (compressed, say).
    """
    if isinstance(values, int):
        values = [record(b"value %d" % i, offset_delta=i, timestamp_delta=i) for i in range(values)]
    count = len(values)
    payload: bytes = fields.get("payload", b"".join(values))
    base_timestamp = fields.get("base_timestamp", THEN)
    covered: bytes = (
        struct.pack(
            ">hiqqqhii",
            fields.get("attributes", 0),
            fields.get("last_offset_delta", count - 1),
            base_timestamp,
            fields.get("max_timestamp", base_timestamp + count - 1),
            fields.get("producer_id", -1),
            fields.get("producer_epoch", -1),
            fields.get("base_sequence", -1),
            fields.get("count", count),
        )
        + payload
    )
    crc = fields.get("crc", crc32c(covered))
    size = fields.get("size", len(covered) + 9)
    head = (fields.get("base_offset", 0), size, fields.get("leader_epoch", -1), fields.get("magic", 2), crc)
    return struct.pack(">qiibI", *head) + covered


def message(
    value: bytes | None,
    *,
    magic: int,
    offset: int = 0,
    key: bytes | None = b"k",
    attributes: int = 0,
    timestamp: int = THEN,
    crc: int | None = None,
) -> bytes:
    """One entry of a v0 or v1 message set."""
    covered = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        covered += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    checksum = zlib.crc32(covered) if crc is None else crc
    return struct.pack(">qiI", offset, len(covered) + 4, checksum) + covered


def describe(records: bytes | None) -> Any:
    """What a fetched record set holds: one dictionary per batch or message, and bytes left over."""
    if records is None:
        return None
    entries: list[Values] = []
    position = 0
    while len(records) - position >= 17:
        _offset, size = struct.unpack_from(">qi", records, position)
        if position + 12 + size > len(records):
            break
        magic = records[position + 16]
        entry = records[position : position + 12 + size]
        entries.append(_describe_batch(entry) if magic == 2 else _describe_message(entry, magic))
        position += 12 + size
    return {"entries": entries, "bytes_left_over": len(records) - position}


def _describe_batch(entry: bytes) -> Values:
    base_offset, size, epoch, magic, crc = struct.unpack_from(">qiibI", entry)
    names = "attributes last_offset_delta base_timestamp max_timestamp producer_id producer_epoch base_sequence count"
    values = dict(zip(names.split(), struct.unpack_from(">hiqqqhii", entry, 21), strict=True))
    if values["attributes"] & CONTROL:
        values |= _describe_marker(entry[61:], values)
    return {
        "base_offset": base_offset,
        "size": size,
        "leader_epoch": epoch,
        "magic": magic,
        "crc_is_right": crc == crc32c(entry[21:]),
        **values,
    }


def _describe_marker(records: bytes, values: Values) -> Values:
    """A control batch has one record, which ends in key (version, type), value (version, coordinator epoch), no headers."""
    key_version, kind, value_length, value_version, coordinator_epoch = struct.unpack(">hhBhi", records[-12:-1])
    return {
        "marker": {0: "abort", 1: "commit"}.get(kind, kind),
        "versions": (key_version, value_version),
        "value_length": value_length,
        "coordinator_epoch": coordinator_epoch,
        "base_timestamp": "now" if values["base_timestamp"] > THEN else values["base_timestamp"],
        "max_timestamp": "now" if values["max_timestamp"] > THEN else values["max_timestamp"],
    }


def _describe_message(entry: bytes, magic: int) -> Values:
    offset, size, crc = struct.unpack_from(">qiI", entry)
    return {
        "offset": offset,
        "size": size,
        "magic": magic,
        "attributes": entry[17],
        "crc_is_right": crc == zlib.crc32(entry[16:]),
        "body": entry[18:].hex(),
    }
