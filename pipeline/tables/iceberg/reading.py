"""Reads an Iceberg table into Spark: pyiceberg plans the files, and reads them in Spark's tasks.

So rows that delete files remove are left out, and columns that were renamed or widened are read as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    LessThan,
    NotNull,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from sordini.pipeline.tables.arrow_reading import Within, chosen, read_parts
from sordini.pipeline.tables.iceberg.files import planned

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ScanTasks:
    """Reads some of a scan's files, see `PartReader`."""

    metadata: TableMetadata
    files: FileIO = field(repr=False)
    wanted: BooleanExpression

    def rows(self, parts: Sequence[FileScanTask], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        columns = self.metadata.schema().select(*schema.names)
        yield from ArrowScan(self.metadata, self.files, columns, self.wanted).to_record_batches(list(parts))


def read_table(
    spark: SparkSession, table: IcebergTable, schema: pa.Schema, columns: Sequence[str], within: Within | None
) -> DataFrame:
    """The rows of the table's current snapshot; `schema` has its columns."""
    wanted = row_filter(within)
    tasks = sorted(planned(table, wanted), key=lambda task: task.file.file_path)
    parts = [(task, task.file.file_size_in_bytes) for task in tasks]
    # Snapshots of years would travel with each task; only the current one is read.
    return read_parts(spark, ScanTasks(_current(table.metadata), table.io, wanted), parts, chosen(schema, columns))


def row_filter(within: Within | None) -> BooleanExpression:
    """A range as pyiceberg's condition."""
    if within is None:
        return AlwaysTrue()
    column = Reference(within.column)
    found: BooleanExpression = NotNull(term=column)
    if within.first is not None:
        found = And(found, GreaterThanOrEqual(term=column, value=literal(within.first)))
    if within.end is not None:
        found = And(found, LessThan(term=column, value=literal(within.end)))
    return found


def _current(metadata: TableMetadata) -> TableMetadata:
    """The metadata without what is of other snapshots."""
    update: dict[str, Any] = {
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
        "current_snapshot_id": None,
    }
    return metadata.model_copy(update=update)
