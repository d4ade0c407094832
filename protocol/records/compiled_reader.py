"""aiokafka's compiled record reader: checks batches whose records have no common shape, and reads their records.

It is a private module of aiokafka, and importing it costs some 70 ms and 26 MB, so it is loaded by the first batch
that needs it, or before by `load`. Where aiokafka or its compiled form is missing the functions return None and the
caller walks the records itself.

It checks bounds, except that one number may be read up to ten bytes past the end; hence the padding. It accepts
numbers with more bytes than the format allows; the callers accept that (docs/evidence/record-checks.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any

from sordini.protocol.records.varint import read_varint

_PADDING = bytes(64)
_HEADER = struct.Struct(">qiibIhiqqqhii")
_HEADER_SIZE = _HEADER.size
CHUNK_RECORDS = 65_536
"""Records read at once: 64 MiB of the smallest records would be gigabytes of objects."""

_Reader = Callable[[memoryview], Iterator[Any]]
_reader: _Reader | None = None
_is_loaded = False

_offset_of = attrgetter("offset")
_timestamp_of = attrgetter("timestamp")
_key_of = attrgetter("key")


def load() -> bool:
    """Import the reader now, so that no request waits for it; False when it is not installed, or not compiled."""
    global _reader, _is_loaded  # noqa: PLW0603 - a module loaded once per process
    if not _is_loaded:
        _is_loaded = True
        try:
            from aiokafka.record._crecords.default_records import DefaultRecordBatch  # type: ignore[import-untyped]
        except ImportError:
            return False
        _reader = DefaultRecordBatch
    return _reader is not None


def scan(body: bytes, count: int, *, want_keys: bool) -> tuple[int, int, bool] | None:
    """Check `count` expanded records: the least and greatest timestamp delta, and whether a wanted key is null.

    None when the reader is missing or found an error, which it does not report in the broker's terms.
    """
    # The reader takes attributes of any length, while they are one byte: such records would be read as other fields
    # than by readers that keep to the format. The pass over their lengths costs 0.16 µs a record.
    if not load() or has_wide_attributes(body, count):
        return None
    assert _reader is not None
    header = _HEADER.pack(0, _HEADER_SIZE - 12 + len(body), -1, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    padded = b"".join((header, body, _PADDING))
    first = 0
    least = greatest = 0
    has_null_key = False
    try:
        # Its own `__iter__` may be called once only, and `islice` calls it each time.
        reader = iter(iter(_reader(memoryview(padded)[: -len(_PADDING)])).__next__, None)
        while first < count:
            records = list(islice(reader, min(CHUNK_RECORDS, count - first)))
            end = first + len(records)
            if not records or list(map(_offset_of, records)) != list(range(first, end)):
                return None
            timestamps = {least, greatest, *map(_timestamp_of, records)} if first else set(map(_timestamp_of, records))
            least, greatest = min(timestamps), max(timestamps)
            has_null_key = has_null_key or (want_keys and None in map(_key_of, records))
            first = end
        if next(reader, None) is not None:
            return None
    except Exception:  # noqa: BLE001 - foreign code; after any error of it, the walk decides
        return None
    return least, greatest, has_null_key


def has_wide_attributes(body: bytes, count: int) -> bool:
    """Whether the attributes of a record are a byte of 0x80 or more, or the records are no chain.

    The reader takes attributes for a number of any number of bytes, while they are one byte: it would see other fields
    than readers that keep to the format, and accept what they refuse.
    """
    position = 0
    try:
        for _ in range(count):
            byte = body[position]
            if byte < 0x80:
                if body[position + 1] >= 0x80:
                    return True
                position += 1 + (byte >> 1)
            else:
                high = body[position + 1]
                if high < 0x80:
                    if body[position + 2] >= 0x80:
                        return True
                    position += 2 + ((byte & 0x7F | high << 7) >> 1)
                else:
                    length, position = read_varint(body, position)
                    if length < 0 or body[position] >= 0x80:
                        return True
                    position += length
    except (IndexError, ValueError):
        return True
    return False


def each(body: bytes, count: int, base_timestamp: int) -> Iterator[Any] | None:
    """As `read`, one by one; for checked records only, as this raises whatever the reader raises."""
    if not load():
        return None
    assert _reader is not None
    header = _HEADER.pack(0, _HEADER_SIZE - 12 + len(body), -1, 2, 0, 0, count, base_timestamp, 0, -1, -1, -1, count)
    padded = b"".join((header, body, _PADDING))
    return iter(_reader(memoryview(padded)[: -len(_PADDING)]))


def read(body: bytes, count: int, base_timestamp: int) -> list[Any] | None:
    """The records of `count` expanded ones, each with `key`, `value` and `timestamp`; None as for `scan`.

    Not for records that a client has just sent: see `has_wide_attributes`.
    Their offsets are meaningless: the base offset is not given.
    """
    if not load():
        return None
    assert _reader is not None
    # The reader accepts a last offset delta of `count` or more.
    header = _HEADER.pack(0, _HEADER_SIZE - 12 + len(body), -1, 2, 0, 0, count, base_timestamp, 0, -1, -1, -1, count)
    padded = b"".join((header, body, _PADDING))
    try:
        return list(_reader(memoryview(padded)[: -len(_PADDING)]))
    except Exception:  # noqa: BLE001 - foreign code; after any error of it, the caller's own reader decides
        return None


def read_in_place(batch: memoryview) -> list[Any] | None:
    """As `read`, of a whole uncompressed batch followed by 64 readable bytes: only the records are copied.

    The batch's CRC and header must have been checked.
    """
    if not load():
        return None
    assert _reader is not None
    try:
        return list(_reader(batch))
    except Exception:  # noqa: BLE001 - as above
        return None
