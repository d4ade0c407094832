"""The bytes around the records of one partition in a message: their length, and what ends the message."""

from __future__ import annotations

import struct
from typing import Final

from sordini.protocol.primitives import varint

NO_TAGS: Final = b"\0\0\0"
"""The empty tagged fields of the partition, the topic and the message, in flexible versions."""
EMPTY_RECORDS_BYTES: Final = 4
"""The bytes of empty records with the rest: a length of four bytes, or one of a single byte and the tagged fields."""

_INT32: Final = struct.Struct(">i")


def length_field(room: int, *, is_flexible: bool) -> bytes:
    """The canonical length of records that take `room` bytes together with it; empty where there is none."""
    if not is_flexible:
        return _INT32.pack(room - _INT32.size) if room >= _INT32.size else b""
    for size in range(1, 6):
        # One more than the length: 0 is for null.
        field = varint(room - size + 1) if room >= size else b""
        if len(field) == size:
            return field
    return b""


def first_difference(given: bytes | bytearray, other: bytes | bytearray) -> int:
    """Where two encodings of a message begin to differ that have the same length: where a number of fixed width is."""
    assert len(given) == len(other), "numbers of a fixed width change no length"
    return next(at for at, (left, right) in enumerate(zip(given, other, strict=True)) if left != right)
