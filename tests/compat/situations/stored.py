"""Records out of v2 batches that are not compressed, as a Fetch returns them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tests.compat.situations.batches import CONTROL
from tests.compat.situations.definitions import Reader

_HEADER_BYTES = 61


class StoredRecord(NamedTuple):
    """One record; `end` is the offset behind its batch."""

    end: int
    is_first_of_batch: bool
    is_control: bool
    key: bytes
    value: bytes | None


def stored_records(data: bytes) -> Iterator[StoredRecord]:
    position = 0
    while position < len(data):
        base, size = struct.unpack_from(">qi", data, position)
        attributes, last = struct.unpack_from(">hi", data, position + 21)
        count = struct.unpack_from(">i", data, position + 57)[0]
        reader = Reader(data[position + _HEADER_BYTES : position + 12 + size])
        for index in range(count):
            key, value = _key_and_value(Reader(reader.take(_signed(reader))))
            yield StoredRecord(base + last + 1, index == 0, bool(attributes & CONTROL), key, value)
        position += 12 + size


def _key_and_value(record: Reader) -> tuple[bytes, bytes | None]:
    record.take(1)
    for _delta in ("timestamp", "offset"):
        record.varint()
    key, value = _bytes(record), _bytes(record)
    assert key is not None
    return key, value


def _signed(reader: Reader) -> int:
    value = reader.varint()
    return value >> 1 ^ -(value & 1)


def _bytes(reader: Reader) -> bytes | None:
    size = _signed(reader)
    return None if size < 0 else reader.take(size)
