"""Columns of variable-length numbers: one number of each record, read for all records at once.

A column costs a few numpy operations for each byte of its longest number, whatever the number of records. Positions
past the end of the buffer read its last byte: numbers that lie there are nonsense, and whoever reads a whole record
finds that it does not end where it should.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sordini.protocol.records.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class Column(NamedTuple):
    """The numbers, and the position after each."""

    numbers: Numbers
    after: Numbers
    is_right: bool
    """False where a number does not end, or has more bits than there may be."""


def read_varints(buffer: Bytes, at: Numbers) -> Column:
    """The numbers of up to five bytes at the positions `at`."""
    raw, after, is_right = _read(buffer, at, VARINT_BYTES_MAX)
    return Column(raw >> 1 ^ -(raw & 1), after, is_right)


def read_varlongs(buffer: Bytes, at: Numbers) -> Column:
    """The numbers of up to ten bytes, 64 bits, at the positions `at`."""
    raw, after, is_right = _read(buffer, at, VARLONG_BYTES_MAX)
    # The sign is in the lowest bit, so the highest belongs to the number: shifted down without a sign.
    upper = (raw.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return Column(upper ^ -(raw & 1), after, is_right)


def _read(buffer: Bytes, at: Numbers, bytes_max: int) -> tuple[Numbers, Numbers, bool]:
    byte = buffer.take(at, mode="clip")
    after = at + 1
    raw = (byte & 0x7F).astype(np.int64)
    if not byte.size or byte.max() < 0x80:
        return raw, after, True
    more = byte >> 7
    for index in range(1, bytes_max):
        byte = buffer.take(after, mode="clip")
        after += more
        # Where the number has ended, what follows it counts as nothing.
        bits = (byte & 0x7F) * more
        if index == VARLONG_BYTES_MAX - 1 and bits.max() > 1:
            return raw, after, False
        raw |= bits.astype(np.int64) << 7 * index
        more &= byte >> 7
        if not more.any():
            return raw, after, True
    return raw, after, False
