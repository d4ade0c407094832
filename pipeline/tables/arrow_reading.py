"""Reads the files of a table into Spark through Arrow: in Spark's tasks, without a JAR and without Spark's file system.

The driver lists the files; each task reads a group of them and passes the rows on batch by batch, so neither the driver
nor a task holds more than a few batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from sordini.pipeline.tables.columns import aligned, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP_BYTES = 64 * 1024 * 1024
"""Files of one task, about; smaller ones are put together."""
TASKS_MIN = 8
"""Small tables are read by as many tasks, if they have as many files."""
BATCH_ROWS = 65_536
INT96_UNIT: Final = "us"
"""In nanoseconds, which Arrow takes by default for the 96-bit times that Spark writes, years end with 2262."""
FILE_FORMAT: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit=INT96_UNIT)

Part = TypeVar("Part")
Part_contra = TypeVar("Part_contra", contravariant=True)


class Within(NamedTuple):
    """Rows whose column is in [first, end); a half that is None is open. Null is in no range."""

    column: str
    first: Any = None
    end: Any = None

    def expression(self) -> pc.Expression:
        """For Arrow's readers."""
        column = pc.field(self.column)
        halves = [column.is_valid()]
        halves += [] if self.first is None else [column >= self.first]
        halves += [] if self.end is None else [column < self.end]
        found = halves[0]
        for half in halves[1:]:
            found &= half
        return found

    def overlaps(self, smallest: Any, greatest: Any) -> bool:
        """Whether a file with these bounds can have such rows; unknown bounds are None."""
        below = self.first is not None and greatest is not None and greatest < self.first
        above = self.end is not None and smallest is not None and smallest >= self.end
        return not (below or above)


class PartReader(Protocol[Part_contra]):
    """Reads parts of a table; sent to Spark's workers. Its text has no secret."""

    def rows(self, parts: Sequence[Part_contra], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of some parts, with at least the columns of `schema`."""
        ...


@dataclass(frozen=True)
class _Task(Generic[Part]):
    reader: PartReader[Part]
    groups: list[list[Part]]
    schema: pa.Schema

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in self.reader.rows(self.groups[number], self.schema):
                    yield aligned(rows, self.schema)


def read_parts(
    spark: SparkSession, reader: PartReader[Part], parts: Sequence[tuple[Part, int]], schema: pa.Schema
) -> DataFrame:
    """A DataFrame of the rows of `parts`, each of which comes with its bytes. `schema` has the wanted columns."""
    columns = spark_schema(schema)
    groups = grouped(parts)
    if not groups:
        return spark.createDataFrame([], columns)
    task = _Task(reader, groups, schema)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(task.run, columns)


def grouped(parts: Sequence[tuple[Part, int]]) -> list[list[Part]]:
    """One list for each task, of about equal bytes; in the order of `parts`."""
    total = sum(size for _, size in parts)
    wanted = min(len(parts), max(TASKS_MIN, -(-total // GROUP_BYTES)))
    groups: list[list[Part]] = [[] for _ in range(wanted)]
    before = 0
    for at, (part, size) in enumerate(parts):
        # By the middle of each part, so that none falls behind the last group; by number where sizes are unknown.
        place = (before + size / 2) / total if total else at / len(parts)
        groups[min(int(place * wanted), wanted - 1)].append(part)
        before += size
    return [group for group in groups if group]


def chosen(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The wanted columns of a table; all where none is named."""
    return pa.schema([schema.field(name) for name in columns]) if columns else schema


class TableFile(NamedTuple):
    """A Parquet file below the root of its file system, and the values of columns that it lacks."""

    path: str
    values: Mapping[str, Any]
    deleted: bytes = b""
    """The numbers of rows that are left out: a serialized bitmap of 64 bits."""


@dataclass(frozen=True)
class ParquetFiles:
    """Reads Parquet files of a table whose partition columns are only in its log."""

    open_files: Callable[[], pyarrow.fs.FileSystem] = field(repr=False)
    file_schema: pa.Schema
    """The columns that are in the files; a file may lack some, or have narrower numbers."""
    within: Within | None = None

    def rows(self, parts: Sequence[TableFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        files = self.open_files()
        inside = [name for name in schema.names if name in self.file_schema.names]
        wanted = self.within.expression() if self.within else None
        for part in parts:
            if part.deleted:
                batches = self._rows_not_deleted(files, part, inside)
            else:
                batches = FILE_FORMAT.make_fragment(part.path, files).to_batches(
                    schema=self.file_schema, columns=inside, filter=wanted, batch_size=BATCH_ROWS
                )
            for batch in batches:
                yield _with_values(batch, part.values, schema)

    def _rows_not_deleted(
        self, files: pyarrow.fs.FileSystem, part: TableFile, inside: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """All of the file is read: which row is which is known by counting them."""
        from pyroaring import BitMap64  # Only needed for tables of upserts.

        gone = BitMap64.deserialize(part.deleted)
        wanted = [*inside, *([self.within.column] if self.within and self.within.column not in inside else [])]
        schema = pa.schema([self.file_schema.field(name) for name in wanted])
        start = 0
        with files.open_input_file(part.path) as source, parquet_file(source) as parquet:
            there = [name for name in wanted if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(BATCH_ROWS, columns=there):
                numbers = BitMap64(range(start, start + batch.num_rows))
                kept = np.array(numbers - gone, dtype=np.int64) - start
                start += batch.num_rows
                if not wanted:  # Arrow's functions forget the number of rows that have no columns.
                    yield batch.slice(0, len(kept))
                    continue
                rows = aligned(batch.take(pa.array(kept)), schema)
                yield (rows.filter(self.within.expression()) if self.within else rows).select(inside)


def parquet_file(source: pa.NativeFile) -> pq.ParquetFile:
    """A data file of a table, of any writer."""
    return pq.ParquetFile(source, coerce_int96_timestamp_unit=INT96_UNIT)


def _with_values(batch: pa.RecordBatch, values: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`; those that the file lacks have one value in all rows."""
    columns = [
        batch.column(name) if name in batch.schema.names else pa.repeat(pa.scalar(values.get(name), kind), len(batch))
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)
