"""A segment's `.log`, batch by batch, with each CRC checked.

Messages of the old formats 0 and 1 are shown as batches. A batch with a wrong CRC is skipped by its length; if the
length is impossible, reading ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sordini.cli.commands.log.dump.items import Item, damage
from sordini.protocol.errors import BrokerError
from sordini.protocol.records import legacy
from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    BatchHeader,
    Record,
    crc_is_right,
    read_header,
    read_records,
)
from sordini.protocol.records.compression import CODEC_NAMES
from sordini.protocol.records.control import ABORT, COMMIT, read_marker
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX
from sordini.storage.disk import File

_PREFIX_BYTES: Final = 18
"""Enough to see an entry's offset, length, format and, in the old ones, attributes."""
_OLD_SIZE_MIN: Final = LENGTH_PREFIX + 14
_MAGIC_AT: Final = 16
_MARKERS: Final = {ABORT: "abort", COMMIT: "commit"}
_ZEROS_WINDOW: Final = 1024 * 1024


def read_log(file: File, base: int, *, with_records: bool) -> Iterator[Item]:
    """The batches of a segment that begins at offset `base`, with their records if wanted."""
    position, next_offset, end = 0, base, file.size()
    while position < end:
        data = _entry(file, position, end)
        if data is None:
            yield _report_unreadable_end(file, position, end)
            return
        if data[_MAGIC_AT] == CURRENT_MAGIC:
            header = read_header(data)
            yield from _batch(data, header, position, next_offset, with_records=with_records)
            next_offset = max(next_offset, header.next_offset)
        else:
            last = next_offset - 1
            for item in _old_entry(data, position, with_records=with_records):
                last = max(last, item.fields.get("last_offset", last))
                yield item
            next_offset = last + 1
        position += len(data)


def _entry(file: File, position: int, end: int) -> bytes | None:
    """The batch or old message at a position, or None when what is there cannot be one."""
    prefix = file.read_at(position, _PREFIX_BYTES)
    if len(prefix) < _PREFIX_BYTES:
        return None
    size = LENGTH_PREFIX + int.from_bytes(prefix[8:12], "big", signed=True)
    magic = prefix[_MAGIC_AT]
    if magic > CURRENT_MAGIC or size < (HEADER_SIZE if magic == CURRENT_MAGIC else _OLD_SIZE_MIN):
        return None
    if size > end - position:
        return None
    data = file.read_at(position, size)
    return data if len(data) == size else None


def _report_unreadable_end(file: File, position: int, end: int) -> Item:
    prefix = file.read_at(position, _PREFIX_BYTES)
    left = end - position
    # A torn batch may begin with a few zeros, too: those of its offset.
    is_empty = all(not any(file.read_at(at, _ZEROS_WINDOW)) for at in range(position, end, _ZEROS_WINDOW))
    if is_empty and left >= HEADER_SIZE:
        return Item("padding", {"position": position, "bytes": left})
    if len(prefix) == _PREFIX_BYTES and prefix[_MAGIC_AT] <= CURRENT_MAGIC:
        size = LENGTH_PREFIX + int.from_bytes(prefix[8:12], "big", signed=True)
        if size > left:
            return damage(position, f"a batch of {size} bytes begins, and {left} are left in the file")
    return damage(position, f"no batch begins here; the {left} bytes up to the end of the file cannot be read")


def _batch(data: bytes, header: BatchHeader, position: int, next_offset: int, *, with_records: bool) -> Iterator[Item]:
    yield Item("batch", _batch_fields(header, position))
    if not crc_is_right(data, 0, header):
        yield damage(position, f"the CRC of the batch at offset {header.base_offset} is wrong")
        return
    if header.base_offset < next_offset:
        yield damage(position, f"offset {header.base_offset} comes where at least {next_offset} is due")
    if with_records:
        try:
            for record in read_records(data, header):
                yield Item("record", _record_fields(record, is_control=header.is_control))
        except BrokerError as error:
            yield damage(position, str(error))


def _batch_fields(header: BatchHeader, position: int) -> dict[str, Any]:
    has_producer = header.producer_id >= 0
    return {
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "format": header.magic,
        "compression": CODEC_NAMES.get(header.codec, f"codec {header.codec}"),
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None,
        "producer_id": header.producer_id if has_producer else None,
        "producer_epoch": header.producer_epoch if has_producer else None,
        "base_sequence": header.base_sequence if has_producer else None,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def _record_fields(record: Record, *, is_control: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [[key, value] for key, value in record.headers],
    }
    if is_control:
        marker = read_marker(record)
        fields |= {
            "marker": _MARKERS.get(marker.kind, f"unknown ({marker.kind})"),
            "coordinator_epoch": marker.coordinator_epoch,
        }
    return fields


def _old_entry(data: bytes, position: int, *, with_records: bool) -> Iterator[Item]:
    entry = legacy.RecordSetEntry(0, len(data), data[_MAGIC_AT])
    try:
        codec = legacy.codec_of(data, entry)
        records = legacy.read_entry(data, entry, EXPANDED_BYTES_MAX)
    except BrokerError as error:
        yield damage(position, str(error))
        return
    yield Item(
        "batch",
        {
            "position": position,
            "size": entry.size,
            "base_offset": records[0].offset,
            "last_offset": records[-1].offset,
            "records": len(records),
            "format": entry.magic,
            "compression": CODEC_NAMES[codec],
            "timestamp_type": "create",
            "max_timestamp": max(record.timestamp for record in records),
            "leader_epoch": None,
            "producer_id": None,
            "producer_epoch": None,
            "base_sequence": None,
            "transactional": False,
            "control": False,
        },
    )
    if with_records:
        for record in records:
            yield Item("record", _record_fields(record, is_control=False))
