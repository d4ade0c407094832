"""How far the records of a fetch reach, from the batches' heads alone. Pure.

    offset      0          8           12          16      17     21       23
    v2 batch    base       length      leader      magic   crc    attrs    last offset delta ...
    old         offset     length      crc         magic   ...

`length` counts the bytes after itself. An old message's offset is that of its last record, compressed or not. The last
batch of a fetch may be incomplete. The decoder checks batches: one that is invalid here is passed on with all that
follows it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct(">qiiB")
_LAST_DELTA: Final = struct.Struct(">i")
_LAST_DELTA_AT: Final = 23
_OVERHEAD: Final = 12
"""Bytes of the base offset and the length."""
_OLD_BYTES_MIN: Final = 14
_BATCH_BYTES_MIN: Final = 49
_MAGIC_2: Final = 2


class Extent(NamedTuple):
    """The extent of consecutive batches."""

    size: int
    """Bytes of whole batches that begin before the requested end."""
    next_offset: int
    """The first offset after them; the requested end, if the next batch begins at or after it."""
    last_epoch: int
    """The leader epoch in which the last of them was written (-1: unknown, or no batch)."""


def extent(records: memoryview, start: int, end: int) -> Extent:
    """Measure what was fetched from `start` on; batches from `end` on are left out."""
    size, position, next_offset, last_epoch = len(records), 0, start, -1
    while position + _HEAD.size <= size:
        base_offset, length, epoch, magic = _HEAD.unpack_from(records, position)
        if base_offset >= end:
            next_offset = max(next_offset, end)
            break
        if length < (_BATCH_BYTES_MIN if magic >= _MAGIC_2 else _OLD_BYTES_MIN) or base_offset < 0:
            return Extent(size, next_offset, last_epoch)
        if position + _OVERHEAD + length > size:
            break
        last_delta, last_epoch = 0, -1
        if magic >= _MAGIC_2:
            (last_delta,) = _LAST_DELTA.unpack_from(records, position + _LAST_DELTA_AT)
            last_epoch = epoch
        next_offset = max(next_offset, base_offset + last_delta + 1)
        position += _OVERHEAD + length
    return Extent(position, next_offset, last_epoch)
