"""Finds what a table knows of the keys of a batch: where their rows are, and which changes are late.

Pure functions over Arrow tables. Changes and known rows have the columns of `key_columns.py`, and these:

    file, row              of a known row: the number of its file, and of the row in it
    change                 of a change: its number, from 0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.tables.key_columns import key_names, order_names
from sordini.pipeline.tables.key_index import is_greater

FILE, ROW, CHANGE = "file", "row", "change"
_LOOKUP_ROWS: Final = 2_000_000
"""Known rows that are compared with the changes at once."""


class Found(NamedTuple):
    """The result of a lookup."""

    late: np.ndarray
    """For each change, whether it is late."""
    rows: dict[int, np.ndarray]
    """The known rows that changes replace or delete: row numbers by the number of their file."""


def find_known(changes: pa.Table, known: Iterable[pa.Table]) -> Found:
    """Compare changes, which have no `change` column yet, with the known rows, which may come in pieces."""
    numbered = changes.append_column(CHANGE, pa.array(np.arange(changes.num_rows)))
    late = np.zeros(changes.num_rows, dtype=bool)
    matched: list[pa.Table] = []
    for piece in _gathered(known):
        found = _matches(piece, numbered)
        if found.num_rows:
            orders = order_names(changes)
            newer = is_greater(found.select(orders), found.select([f"change_{name}" for name in orders]))
            late[found.column(CHANGE).to_numpy()[newer]] = True
            matched.append(found.select([FILE, ROW, CHANGE]))
    rows: dict[int, np.ndarray] = {}
    if matched:
        every = pa.concat_tables(matched)
        kept = ~late[every.column(CHANGE).to_numpy()]
        files, numbers = every.column(FILE).to_numpy()[kept], every.column(ROW).to_numpy()[kept]
        rows = {int(file): numbers[files == file] for file in np.unique(files)}
    return Found(late, rows)


def _gathered(known: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """Small pieces together: a join has a cost of its own."""
    waiting: list[pa.Table] = []
    for piece in known:
        waiting.append(piece)
        if sum(each.num_rows for each in waiting) >= _LOOKUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _matches(known: pa.Table, changes: pa.Table) -> pa.Table:
    """Known rows with the change of their key; the change's sequence is in `change_order0`, ..."""
    keys = key_names(changes)
    for name in keys:
        # Most rows are none of the batch's: this is several times faster than a join of them all.
        known = known.filter(pc.is_in(known.column(name), value_set=changes.column(name).combine_chunks()))
    renamed = changes.rename_columns(
        [f"change_{name}" if name in order_names(changes) else name for name in changes.column_names]
    )
    return known.join(renamed, keys=keys, join_type="inner")
