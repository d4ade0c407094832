"""Leaving records out of a version 2 batch: those that stay are copied as the bytes they are.

A record says its offset and its time as differences to the batch's first ones, and a batch keeps those when records go:
so nothing in a record that stays changes, and a batch with gaps is cut out of the old one. Only the delete horizon
(KIP-534) moves the base timestamp, once in a batch's life; then the time in each record is written anew, and nothing
else of it.

Records are read with aiokafka's compiled reader (`compiled`); this module's own, slower reader is the judge of damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import compiled_reader
from sordini.protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    assemble_batch,
    read_records,
)
from sordini.protocol.records.compression import EXPANDED_BYTES_MAX, NO_CODEC, compress, decompress
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint, varint

DELETE_HORIZON_BIT: Final = 0x40
"""The batch's base timestamp is the time from which its tombstones, or its marker, may go."""


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """When what the batch deletes may itself be deleted; None when no cleaning has set it yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def expand(batch: memoryview, header: BatchHeader) -> bytes:
    """The records of a batch, decompressed; raises BrokerError as `decompress` does."""
    body = batch[HEADER_SIZE : header.size]
    return bytes(body) if header.codec == NO_CODEC else decompress(header.codec, body, EXPANDED_BYTES_MAX)


def read_expanded(body: bytes, header: BatchHeader) -> Sequence[Any]:
    """The expanded records of a batch, in order: each has `key`, `value` and `timestamp`.

    The timestamp is the producer's, whatever the batch says. Raises BrokerError INVALID_RECORD.
    """
    if header.record_count > 0:
        records = compiled_reader.read(body, header.record_count, header.base_timestamp)
        if records is not None:
            return records
    plain = header._replace(attributes=0, size=HEADER_SIZE + len(body))
    return list(read_records(b"".join((bytes(HEADER_SIZE), body)), plain))


def without_some(header: BatchHeader, body: bytes, keep: Sequence[int], horizon_ms: int | None = None) -> bytearray:
    """The batch with those of its expanded records for which `keep` says so (1 or 0); at least one must stay.

    Offsets, sequences, producer, epoch and codec stay; the greatest timestamp is that of what is left, unless the log
    set it. With `horizon_ms` that becomes the base timestamp. Raises BrokerError INVALID_RECORD.
    """
    records = _picked(body, keep)
    fields = {"record_count": len(records)}
    if not header.is_log_append_time:
        fields["max_timestamp"] = _max_timestamp(header, records)
    if horizon_ms is not None:
        records = _redated(records, header.base_timestamp - horizon_ms)
        fields |= {"base_timestamp": horizon_ms, "attributes": header.attributes | DELETE_HORIZON_BIT}
    return assemble_batch(header._replace(**fields), compress(header.codec, b"".join(records)))


def without_all(header: BatchHeader) -> bytearray:
    """The batch without a record, kept for its offsets and sequences. Nothing is compressed and nothing has a time."""
    empty = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT), base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return assemble_batch(empty, b"")


def _picked(body: bytes, keep: Sequence[int]) -> list[bytes]:
    """The records that stay, as they are."""
    records: list[bytes] = []
    add = records.append
    position = 0
    try:
        for stays in keep:
            start = position
            byte = body[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            else:
                high = body[position + 1]
                if high < 0x80:
                    position += 2 + ((byte & 0x7F | high << 7) >> 1)
                else:
                    length, position = read_varint(body, position)
                    position += length
            if stays:
                add(body[start:position])
    except (IndexError, ValueError):
        position = -1
    if position != len(body):
        raise BrokerError(ErrorCode.INVALID_RECORD, f"{len(keep)} records do not fill {len(body)} bytes")
    return records


def _max_timestamp(header: BatchHeader, records: list[bytes]) -> int:
    """The greatest timestamp of some of a batch's records."""
    base = header.base_timestamp
    # Time rarely goes back: the last one tells, if it has the greatest of all.
    last = base + read_varint(records[-1], _time_at(records[-1]), VARLONG_BYTES_MAX)[0]
    if last == header.max_timestamp:
        return last
    return base + max(read_varint(record, _time_at(record), VARLONG_BYTES_MAX)[0] for record in records)


def _time_at(record: bytes) -> int:
    """Where the timestamp delta stands: after the length and the attributes."""
    position = 0
    while record[position] >= 0x80:
        position += 1
    return position + 2


def _redated(records: list[bytes], shift: int) -> list[bytes]:
    """The records, the timestamp delta of each moved by `shift` ms."""
    redated: list[bytes] = []
    moved: dict[bytes, bytes] = {}
    for record in records:
        time_at = _time_at(record)
        rest = time_at + 1
        while record[rest - 1] >= 0x80:
            rest += 1
        old = record[time_at:rest]
        # Records that are sent together have few times between them.
        new = moved.get(old)
        if new is None:
            new = moved[old] = varint(read_varint(old, 0, VARLONG_BYTES_MAX)[0] + shift)
        length = len(record) - rest + len(new) + 1
        redated.append(b"".join((varint(length), record[time_at - 1 : time_at], new, record[rest:])))
    return redated
