"""Clustering: rows in an order in which rows with near values of some columns are near each other.

Readers skip row groups by the least and the greatest value of a column. One column is sorted. Several are ordered along
a z-order curve, which is near in each of them: the bits of a row's ranks in the columns are interleaved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

CURVE_BITS: Final = 63
"""Of a place on the curve, all columns together."""
COLUMNS_MAX: Final = 4
"""With more columns, each would have too few bits for a reader to skip anything."""


def clustered(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same rows, ordered by `columns`; without any, as they come. All rows are in memory at once."""
    if not columns:
        yield from batches
        return
    left = iter(batches)
    first = next(left, None)
    if first is None:
        return
    rows = pa.Table.from_batches(chain([first], left))
    yield from rows.take(order(rows, columns)).to_batches()


def order(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The rows' places in that order; equal rows stay in theirs, null comes last."""
    if len(columns) == 1:
        return pc.sort_indices(rows, sort_keys=[(columns[0], "ascending")])
    bits = CURVE_BITS // len(columns)
    return pa.array(np.argsort(interleaved([_ranks(rows[name], bits) for name in columns], bits), kind="stable"))


def interleaved(ranks: Sequence[npt.NDArray[np.uint64]], bits: int) -> npt.NDArray[np.uint64]:
    """Places on the curve: the first bit of each rank, then the second of each, and so on."""
    places = np.zeros(len(ranks[0]), np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for each in ranks:
            places <<= one
            places |= (each >> np.uint64(bit)) & one
    return places


def _ranks(column: pa.ChunkedArray, bits: int) -> npt.NDArray[np.uint64]:
    """Each value's rank among the distinct ones, spread over all numbers of that many bits."""
    found = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    ranks = np.asarray(found.to_numpy(), np.float64)
    share = (ranks - 1) / max(1.0, ranks.max(initial=1.0) - 1)
    return np.asarray(share * (2**bits - 1), np.uint64)
