"""Collapses the changes of a batch: of each key the newest is kept.

The newest is the one with the greatest sequence; among equal ones, and where there is no sequence, it is the last by
topic, partition and offset. So changes of a key that are in one partition need no sequence, and those that are in
several do: between partitions a topic has no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITION: Final = ("topic", "partition", "offset")
_NUMBER: Final = "number"
_COLLAPSE_ROWS: Final = 500_000
"""A task holds about so many rows, and the newest of each key."""


def collapsed(changes: DataFrame, keys: Sequence[str], sequence: Sequence[str]) -> DataFrame:
    """At most one row for each key, with the same columns; tasks of a batch are as many as Spark has cores."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from newest_of(batches, keys, sequence)

    tasks = changes.sparkSession.sparkContext.defaultParallelism
    return changes.repartition(tasks, *(changes[name] for name in keys)).mapInArrow(task, changes.schema)


def newest_of(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], sequence: Sequence[str], rows_max: int = _COLLAPSE_ROWS
) -> Iterator[pa.RecordBatch]:
    """The newest row of each key, of rows that come in pieces; collapsed whenever `rows_max` more have come."""
    held: list[pa.RecordBatch] = []
    rows = limit = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows > limit + rows_max:
            held = newest(pa.Table.from_batches(held), keys, sequence).to_batches()
            rows = limit = sum(each.num_rows for each in held)
    if held:
        yield from newest(pa.Table.from_batches(held), keys, sequence).to_batches()


def newest(rows: pa.Table, keys: Sequence[str], sequence: Sequence[str]) -> pa.Table:
    """The newest row of each key."""
    order = [*sequence, *(name for name in POSITION if name in rows.column_names and name not in sequence)]
    numbered = rows.select(list(dict.fromkeys([*keys, *order]))).append_column(
        _NUMBER, pa.array(np.arange(rows.num_rows))
    )
    if order:
        numbered = numbered.sort_by([(name, "ascending") for name in order])
    # Without threads groups see their rows in order.
    last = numbered.group_by(list(keys), use_threads=False).aggregate([(_NUMBER, "last")])
    return rows.take(last.column(f"{_NUMBER}_last"))
