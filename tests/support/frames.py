"""A frame without Spark: as much of it as tables use, which is its columns and `mapInArrow`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.cloudpickle import dumps, loads
from pyspark.sql import Row
from pyspark.sql.types import StructType

from sordini.pipeline.tables.columns import spark_schema

KINDS = ("delta", "iceberg")


class LocalFrame:
    """Tasks run one after the other, in this process; like Spark's, they come out of a pickle.

    `meanwhile` happens once they have run: what others do while a batch is being staged.
    """

    def __init__(self, *tasks: list[pa.RecordBatch], meanwhile: Callable[[], object] | None = None) -> None:
        self.tasks = tasks
        self.schema: StructType = spark_schema(tasks[0][0].schema)
        self._meanwhile = meanwhile

    def mapInArrow(self, function: Callable[..., Iterator[pa.RecordBatch]], schema: str) -> LocalFrame:  # noqa: N802
        task = loads(dumps(function))
        made = [list(task(iter(batches))) for batches in self.tasks]
        if self._meanwhile:
            self._meanwhile()
        return LocalFrame(*made)

    def collect(self) -> list[Row]:
        return [Row(**row) for batches in self.tasks for batch in batches for row in batch.to_pylist()]


def batch(ids: Iterable[int], **more: Any) -> pa.RecordBatch:
    """Rows with an id, bytes, a time and a site (of three, one of them null); `more` are columns of one value."""
    numbers = list(ids)
    sites = [None, "plain", "a b/ü%"]
    columns: dict[str, Any] = {
        "id": pa.array(numbers, pa.int64()),
        "value": pa.array([b"v%d" % each for each in numbers], pa.binary()),
        "time": pa.array(
            [dt.datetime(2026, 11, 22, tzinfo=dt.UTC) + dt.timedelta(minutes=each) for each in numbers],
            pa.timestamp("us", "UTC"),
        ),
        "site": pa.array([sites[each % 3] for each in numbers], pa.string()),
    }
    columns |= {name: pa.array([value] * len(numbers)) for name, value in more.items()}
    return pa.RecordBatch.from_pydict(columns)


def frame(ids: Iterable[int], meanwhile: Callable[[], object] | None = None, **more: Any) -> Any:
    """Two tasks with half of the rows each."""
    numbers = list(ids)
    half = len(numbers) // 2
    return LocalFrame([batch(numbers[:half], **more)], [batch(numbers[half:], **more)], meanwhile=meanwhile)


def plain_rows(kind: str, location: str) -> pa.Table:
    """The table as its readers see it who know nothing of us: deltalake, pyiceberg."""
    match kind:
        case "delta":
            from deltalake import DeltaTable

            return DeltaTable(location).to_pyarrow_table()
        case "iceberg":
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db")
            try:
                name = f"default.{location.rpartition('/')[2]}"
                return catalog.load_table(name).scan().to_arrow()
            finally:
                catalog.close()
        case _:
            raise AssertionError(f"no plain reader of {kind}")


def plain_ids(kind: str, location: str) -> list[int]:
    rows = plain_rows(kind, location)
    # A folder without files has no columns either.
    return sorted(rows["id"].to_pylist()) if rows.column_names else []
