"""Fingerprints of keys: 128 bits by which rows of equal keys are found without the keys themselves.

Keys of one integer, date, time or boolean have fingerprints of their own, each. All other keys have those of SipHash
under two constants: among a billion different keys two are alike with a probability below 10^-20.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pandas.util import hash_array

HASH_KEYS = ("sordini.keys/one", "sordini.keys/two")
"""Of SipHash, 16 bytes each."""

SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SECOND = np.uint64(0x9E3779B97F4A7C15)


class Fingerprints(NamedTuple):
    """Of one key each; two arrays of 64 bits, of equal length."""

    first: np.ndarray
    second: np.ndarray


def joined(pieces: Sequence[Fingerprints]) -> Fingerprints:
    """All of the pieces, in their order."""
    nothing = np.zeros(0, dtype=np.uint64)
    first, second = ([nothing, *halves] for halves in zip(*pieces, strict=True)) if pieces else ([nothing], [nothing])
    return Fingerprints(np.concatenate(first), np.concatenate(second))


def fingerprints(keys: pa.Table, names: Sequence[str]) -> Fingerprints:
    """Of the rows of `keys` by these columns, none of whose values is null."""
    first = second = None
    for name in names:
        one, two = _of_column(keys[name].combine_chunks())
        # What precedes is multiplied, so that ("a", "b") and ("b", "a") differ.
        first = one if first is None else _mixed(first * FACTORS[0] + one)
        second = two if second is None else _mixed(second * FACTORS[1] + two)
    assert first is not None, "`check_upsert` refuses an upsert without keys"
    assert second is not None
    return Fingerprints(first, second)


def _of_column(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type):
        numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64)
        return _mixed(numbers), _mixed(numbers ^ SECOND)
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        # Decimals of one scale have one text for each value.
        column = column.cast(pa.string())
    values = column.to_numpy(zero_copy_only=False)
    one, two = (hash_array(values, hash_key=key, categorize=False) for key in HASH_KEYS)
    return one, two


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """A permutation of 64 bits whose results are spread evenly: the finalizer of SplitMix64."""
    once = (numbers ^ (numbers >> SHIFTS[0])) * FACTORS[0]
    twice = (once ^ (once >> SHIFTS[1])) * FACTORS[1]
    return np.asarray(twice ^ (twice >> SHIFTS[2]))
