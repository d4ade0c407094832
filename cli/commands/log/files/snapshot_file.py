"""Reads a producer snapshot (`.snapshot`): its entries in file order, or why it cannot be read."""

from __future__ import annotations

import struct
from typing import Final

from sordini.protocol.crc import crc32c
from sordini.storage import producer_snapshots
from sordini.storage.producer_state import ProducerEntry

_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CHECKED_FROM: Final = 6


def read_snapshot(data: bytes) -> list[ProducerEntry] | str:
    """The producers, or a text that says what is wrong with the bytes."""
    if len(data) < _HEADER.size:
        return f"a snapshot is longer than {len(data)} bytes"
    version, crc, count = _HEADER.unpack_from(data)
    if version != producer_snapshots.VERSION:
        return f"version {version} is not known"
    if len(data) != _HEADER.size + count * _ENTRY.size:
        return f"{count} producers do not take {len(data)} bytes"
    computed = crc32c(memoryview(data)[_CHECKED_FROM:])
    if computed != crc:
        return f"the CRC is wrong: {crc} is stored, {computed} is that of the bytes"
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]
