"""Removes records from a version 2 batch; retained records are copied byte by byte.

A record's offset and timestamp are deltas to the batch's base offset and base timestamp, and a batch keeps those when
records are removed: so retained records do not change. Only the delete horizon (KIP-534) moves the base timestamp, once
per batch; then the timestamp delta of each record is rewritten, and nothing else of it.

Records of common shapes are handled by columns (`key_runs`). Others are read with aiokafka's compiled reader
(`compiled_reader`); the slower Python reader decides about damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import compiled_reader, key_runs
from sordini.protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    assemble_batch,
    read_records,
)
from sordini.protocol.records.compression import NO_CODEC, compress
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.protocol.records.key_runs import Run
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint, varint
from sordini.system.named_tuple import NamedTuple

DELETE_HORIZON_BIT: Final = 0x40
"""The batch's base timestamp is the time from which its tombstones, or its marker, may be removed."""
_key_of = attrgetter("key")
_value_of = attrgetter("value")


class Keys(NamedTuple):
    """What compaction decides by: each record's key, and for each record 1 if it is a tombstone; b"" for none."""

    keys: Sequence[bytes | None]
    tombstones: bytes


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """When the tombstones or marker of the batch may be removed; None when no cleaning has set it yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def expand(batch: memoryview, header: BatchHeader) -> bytes:
    """The records of a batch, decompressed; raises BrokerError as `decompress` does."""
    body = batch[HEADER_SIZE : header.size]
    return bytes(body) if header.codec == NO_CODEC else decompress(header.codec, body, EXPANDED_BYTES_MAX)


def read_expanded(body: bytes, header: BatchHeader) -> Sequence[Any]:
    """The expanded records of a batch, in order: each has `key`, `value` and `timestamp`.

    The timestamp is the producer's, also with LogAppendTime. Raises BrokerError INVALID_RECORD.
    """
    if header.record_count > 0:
        records = compiled_reader.read(body, header.record_count, header.base_timestamp)
        if records is not None:
            return records
    plain = header._replace(attributes=0, size=HEADER_SIZE + len(body))
    return list(read_records(b"".join((bytes(HEADER_SIZE), body)), plain))


def read_keys(body: bytes, header: BatchHeader) -> Keys:
    """The keys of the expanded records of a batch; raises BrokerError INVALID_RECORD."""
    runs = key_runs.find_runs(body, header.record_count)
    if runs is None:
        return keys_of(read_expanded(body, header))
    keys = [key_runs.keys_of(body, run) for run in runs]
    tombstones = b"".join((b"\0" if run.has_value else b"\1") * run.records for run in runs)
    return Keys(keys[0] if len(keys) == 1 else list(chain.from_iterable(keys)), tombstones if 1 in tombstones else b"")


def keys_of(records: Sequence[Any]) -> Keys:
    """The keys of records of any format, each with `key` and `value`."""
    values = list(map(_value_of, records))
    return Keys(list(map(_key_of, records)), bytes(value is None for value in values) if None in values else b"")


def batch_with_some_records(
    header: BatchHeader, body: bytes, keep: Sequence[int], horizon_ms: int | None = None
) -> bytearray:
    """The batch with those of its expanded records whose number in `keep` is 1 (not 0); at least one must be kept.

    Offsets, sequences, producer, epoch and codec stay; the max timestamp is that of the retained records, unless the
    batch has LogAppendTime. `horizon_ms`, if given, becomes the base timestamp. Raises BrokerError INVALID_RECORD.
    """
    runs = key_runs.find_runs(body, len(keep))
    delta: int | None
    if runs is None:
        records, delta = _picked(body, keep)
    else:
        records, delta = _picked_of_runs(body, runs, keep), _greatest_of_runs(body, runs, keep)
    fields = {"record_count": len(records)}
    if not header.is_log_append_time:
        greatest = header.base_timestamp + (_greatest_time(records) if delta is None else delta)
        if not -(2**63) <= greatest < 2**63:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"a timestamp of {greatest}")
        fields["max_timestamp"] = greatest
    if horizon_ms is not None:
        records = _redated(records, header.base_timestamp - horizon_ms)
        fields |= {"base_timestamp": horizon_ms, "attributes": header.attributes | DELETE_HORIZON_BIT}
    changed = header._replace(**fields)
    if header.codec == NO_CODEC:
        return assemble_batch(changed, *records)
    # Compressing is 36 of 110 µs for a 64 KiB batch in lz4. A frame made by one call, contexts that are kept, and
    # cramjam were within the noise or slower.
    return assemble_batch(changed, compress(header.codec, b"".join(records)))


def batch_without_records(header: BatchHeader) -> bytearray:
    """The batch without its records, kept for its offsets and sequences; uncompressed, and without a timestamp."""
    empty = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT), base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return assemble_batch(empty, b"")


def _picked(body: bytes, keep: Sequence[int]) -> tuple[list[bytes], int]:
    """The retained records, unchanged, and their greatest timestamp delta."""
    records: list[bytes] = []
    add = records.append
    position, greatest = 0, -(2**63)
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
                # The length and the attributes are before it; two bytes hold 8 seconds.
                time_at = start + 2 if byte < 0x80 else start + 3 if high < 0x80 else start + _time_at(records[-1])
                low = body[time_at]
                if low < 0x80:
                    delta = (low >> 1) ^ -(low & 1)
                elif (high := body[time_at + 1]) < 0x80:
                    delta = (low & 0x7F | high << 7) >> 1 ^ -(low & 1)
                else:
                    delta = read_varint(body, time_at, VARLONG_BYTES_MAX)[0]
                if delta > greatest:  # noqa: PLR1730 - a call to max() costs as much as the rest
                    greatest = delta
    except (IndexError, ValueError):
        position = -1
    if position != len(body):
        raise BrokerError(ErrorCode.INVALID_RECORD, f"{len(keep)} records do not fill {len(body)} bytes")
    return records, greatest


def _picked_of_runs(body: bytes, runs: list[Run], keep: Sequence[int]) -> list[bytes]:
    """As `_picked`."""
    return [record for run, flags in _flagged(runs, keep) for record in key_runs.picked(body, run, flags)]


def _greatest_of_runs(body: bytes, runs: list[Run], keep: Sequence[int]) -> int | None:
    """The greatest timestamp delta of the retained records; None when one is negative."""
    deltas = [key_runs.greatest_time(body, run, flags) for run, flags in _flagged(runs, keep) if 1 in flags]
    found = [delta for delta in deltas if delta is not None]
    return max(found) if len(found) == len(deltas) else None


def _flagged(runs: list[Run], keep: Sequence[int]) -> Iterator[tuple[Run, Sequence[int]]]:
    """Each run with its records' flags."""
    first = 0
    for run in runs:
        yield run, keep[first : first + run.records]
        first += run.records


def _greatest_time(records: list[bytes]) -> int:
    """The greatest timestamp delta of these records."""
    return max(read_varint(record, _time_at(record), VARLONG_BYTES_MAX)[0] for record in records)


def _time_at(record: bytes) -> int:
    """Position of the timestamp delta: after the length and the attributes."""
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
        # Records that are sent together share few timestamps.
        new = moved.get(old)
        if new is None:
            new = moved[old] = varint(read_varint(old, 0, VARLONG_BYTES_MAX)[0] + shift)
        length = len(record) - rest + len(new) + 1
        redated.append(b"".join((varint(length), record[time_at - 1 : time_at], new, record[rest:])))
    return redated
