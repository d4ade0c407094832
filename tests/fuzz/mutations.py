"""Bytes changed without knowledge of what they are: turned, cut, put in, repeated, and numbers at their bounds."""

from __future__ import annotations

import random
import struct
from typing import Final

NUMBERS: Final = (
    *(struct.pack(">b", number) for number in (-1, 0, 1, 127, -128)),
    *(struct.pack(">h", number) for number in (-1, 0, 1, 2**15 - 1, -(2**15))),
    *(struct.pack(">i", number) for number in (-2, -1, 0, 1, 2**31 - 1, -(2**31), 2**24, 65_536)),
    *(struct.pack(">q", number) for number in (-1, 0, 2**63 - 1, -(2**63), 2**32)),
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
)
PIECE_MAX: Final = 64


def mutated(data: bytes, chance: random.Random, other: bytes = b"") -> bytes:
    """One to four changes; `other` is an input whose pieces may be put in."""
    changed = bytearray(data)
    for _ in range(1 + int(chance.random() * chance.random() * 4)):
        _change(changed, chance, other)
    return bytes(changed)


def _change(data: bytearray, chance: random.Random, other: bytes) -> None:
    size = len(data)
    if not size:
        data += chance.randbytes(chance.randint(1, 8))
        return
    place = int(chance.random() * size)
    draw = chance.random()
    if draw < 0.35:
        data[place] ^= 1 << int(chance.random() * 8)
    elif draw < 0.5:
        data[place] = int(chance.random() * 256)
    elif draw < 0.7:
        number = NUMBERS[int(chance.random() * len(NUMBERS))]
        data[place : place + len(number)] = number
    elif draw < 0.78:
        del data[place : place + 1 + int(chance.random() * 8)]
    elif draw < 0.82:
        del data[place:]
    elif draw < 0.9:
        data[place:place] = chance.randbytes(1 + int(chance.random() * 8))
    elif draw < 0.95 or not other:
        data[place:place] = data[place : place + 1 + int(chance.random() * PIECE_MAX)]
    else:
        start = int(chance.random() * len(other))
        data[place:place] = other[start : start + 1 + int(chance.random() * PIECE_MAX)]
