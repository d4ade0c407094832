"""The variable-length numbers inside version 2 records: zigzag, seven bits a byte, least significant first.

A `varint` holds 32 bits in at most 5 bytes, a `varlong` 64 bits in at most 10 (as Protocol Buffers' sint32 and
sint64). Reading past the buffer raises IndexError and an unterminated number raises ValueError: callers that read a
whole record handle both once, because a handler around each number would cost more than the number.
"""

from __future__ import annotations

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


def read_varint(buffer: bytes | memoryview, position: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Return the number at `position` and the position after it; raises IndexError or ValueError."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw = byte & 0x7F
    shift = 7
    for at in range(position + 1, position + bytes_max):
        byte = buffer[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7
    raise ValueError(f"the number at byte {position} does not end within {bytes_max} bytes")


def varint(value: int) -> bytes:
    """The bytes of `value` (32 or 64 bits, they are the same)."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    return _SHORT[raw] if raw < _SHORT_COUNT else _written(raw)


def _written(raw: int) -> bytes:
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_SHORT_COUNT = 1024
_SHORT = tuple(map(_written, range(_SHORT_COUNT)))
"""Lengths and deltas are mostly small: a look-up costs a third."""
