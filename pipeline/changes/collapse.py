"""Collapses the changes of a batch: of each key the newest is kept, by an order that no two of its changes share.

That is `Order.columns`: the sequence, and after it the position of the record. So of two changes with one sequence the
later in a partition is the newer; between partitions, where a topic has no order, it is always the same one. With a
sequence a table compares by as much (`Order.sequence`): what it has in the end does not depend on how changes came in
batches, how often, and in which order. Without one the later batch is the newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBER: Final = "number"
_COLLAPSE_ROWS: Final = 500_000
"""A task holds about so many rows, and the newest of each key."""


class Order(NamedTuple):
    """By which columns changes of a key are compared, the most significant first."""

    columns: tuple[str, ...]
    """In a batch."""
    sequence: tuple[str, ...]
    """With what a table has: the same, without the topic if there is only one; none if the job has no sequence."""

    @classmethod
    def of(cls, sequence: Sequence[str], identity: tuple[str, str, str], *, has_one_topic: bool) -> Order:
        """`identity` names the columns of topic, partition and offset that the rows have; "" is one that they lack."""
        columns = tuple(dict.fromkeys([*sequence, *filter(None, identity)]))
        if not sequence:
            return cls(columns, ())
        topic = identity[0] if has_one_topic and identity[0] not in sequence else None
        return cls(columns, tuple(name for name in columns if name != topic))


def collapsed(changes: DataFrame, keys: Sequence[str], order: Sequence[str]) -> DataFrame:
    """At most one row for each key, with the same columns; tasks of a batch are as many as Spark has cores."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from newest_of(batches, keys, order)

    tasks = changes.sparkSession.sparkContext.defaultParallelism
    return changes.repartition(tasks, *(changes[name] for name in keys)).mapInArrow(task, changes.schema)


def newest_of(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], order: Sequence[str], rows_max: int = _COLLAPSE_ROWS
) -> Iterator[pa.RecordBatch]:
    """The newest row of each key, of rows that come in pieces; collapsed whenever `rows_max` more have come."""
    held: list[pa.RecordBatch] = []
    rows = limit = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows > limit + rows_max:
            held = newest(pa.Table.from_batches(held), keys, order).to_batches()
            rows = limit = sum(each.num_rows for each in held)
    if held:
        yield from newest(pa.Table.from_batches(held), keys, order).to_batches()


def newest(rows: pa.Table, keys: Sequence[str], order: Sequence[str]) -> pa.Table:
    """The newest row of each key: the one that is last by the columns of `order`."""
    numbered = rows.select(list(dict.fromkeys([*keys, *order]))).append_column(
        _NUMBER, pa.array(np.arange(rows.num_rows))
    )
    if order:
        numbered = numbered.sort_by([(name, "ascending") for name in order])
    # Without threads groups see their rows in order.
    last = numbered.group_by(list(keys), use_threads=False).aggregate([(_NUMBER, "last")])
    return rows.take(last.column(f"{_NUMBER}_last"))
