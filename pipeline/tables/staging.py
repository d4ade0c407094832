"""Writes the rows of a batch into Parquet files, in Spark's tasks; the driver commits them later.

A task writes one file per partition value, and another one when that has reached `file_bytes`. File names are unique,
so a task may be repeated or run twice: Spark returns the files of one successful attempt to the driver, and only those
are committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sordini.pipeline.tables.columns import aligned, check_times
from sordini.pipeline.tables.file_names import Values, deletions_name, file_name, plain_folder, text_of
from sordini.pipeline.tables.statistics import delta_statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 64 * 1024 * 1024
OPEN_FILES_MAX = 64
"""Open files of a task; with more partition values, the file that was opened first is finished."""

STAGED_COLUMNS = "path string, rows long, bytes long, partition string, statistics string"


class Outputs(Protocol):
    """Creates files in the table's storage; sent to Spark's workers."""

    def create(self, path: str) -> BinaryIO:
        """A new file at `path` below the table's location, with its folders; closing it completes it."""
        ...


@dataclass(frozen=True)
class FileSettings:
    """How Parquet files are written."""

    compression: str = "zstd"
    file_bytes: int = 128 * 1024 * 1024


@dataclass(frozen=True)
class StagingPlan:
    """All that a task needs."""

    outputs: Outputs
    attempt: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    keeps_partition_columns: bool = False
    settings: FileSettings = field(default_factory=FileSettings)
    deleted_at: int | None = None
    """For files of deletions, see `deletions_name`: seconds since 1970."""

    @property
    def file_schema(self) -> pa.Schema:
        """The columns that are in the files."""
        if self.keeps_partition_columns:
            return self.schema
        return pa.schema([each for each in self.schema if each.name not in self.partition_by])


class Staged(NamedTuple):
    """A file that was written; `path` is below the table's location."""

    path: str
    rows: int
    bytes: int
    partition: dict[str, str | None]
    statistics: str
    """Delta's: JSON with numRecords, minValues, maxValues, nullCount."""


def stage(frame: DataFrame, plan: StagingPlan) -> list[Staged]:
    """Run the frame and write its rows; returns the files of the successful task attempts."""
    return staged_by(frame, lambda batches: write(batches, plan))


def staged_by(frame: DataFrame, write_task: Callable[[Iterable[pa.RecordBatch]], Iterator[Staged]]) -> list[Staged]:
    """Run the frame with a function that writes the rows of one task; as `stage`."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = list(write_task(batches))
        yield pa.RecordBatch.from_pydict(
            {
                "path": pa.array([each.path for each in files], pa.string()),
                "rows": pa.array([each.rows for each in files], pa.int64()),
                "bytes": pa.array([each.bytes for each in files], pa.int64()),
                "partition": pa.array([json.dumps(each.partition) for each in files], pa.string()),
                "statistics": pa.array([each.statistics for each in files], pa.string()),
            }
        )

    rows = frame.mapInArrow(task, STAGED_COLUMNS).collect()
    return [Staged(row.path, row.rows, row.bytes, json.loads(row.partition), row.statistics) for row in rows]


def write(batches: Iterable[pa.RecordBatch], plan: StagingPlan) -> Iterator[Staged]:
    """Write one task's rows. All files are closed, also after an error. Raises TableError for times beyond tables'."""
    open_files: dict[tuple[Any, ...], _File] = {}
    count = 0
    try:
        for batch in batches:
            checked = aligned(batch, plan.schema)
            check_times(checked)
            for values, rows in _split(checked, plan.partition_by):
                file = open_files.get(values)
                if file is None:
                    if len(open_files) == OPEN_FILES_MAX:
                        yield open_files.pop(next(iter(open_files))).finish()
                    file = open_files[values] = _File(plan, values, count)
                    count += 1
                if file.add(rows):
                    yield open_files.pop(values).finish()
        while open_files:
            yield open_files.pop(next(iter(open_files))).finish()
    finally:
        for file in open_files.values():
            file.give_up()


def _split(batch: pa.RecordBatch, partition_by: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    if not partition_by or batch.num_rows == 0:
        if batch.num_rows:
            yield (), batch
        return
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for name in partition_by:
        column = batch.column(name).dictionary_encode(null_encoding="encode")
        # Codes are made dense after each column, so they stay small with any number of columns.
        codes = codes * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        rows = batch.take(pa.array(order[start:end]))
        yield tuple(rows.column(name)[0].as_py() for name in partition_by), rows


class _File:
    """One file being written: rows are collected up to a row group."""

    def __init__(self, plan: StagingPlan, values: tuple[Any, ...], count: int) -> None:
        self._plan = plan
        self._partition: Values = dict(zip(plan.partition_by, map(text_of, values), strict=True))
        below = plain_folder(self._partition)
        name = file_name(plan.attempt, count)
        if plan.deleted_at is not None:
            name = deletions_name(plan.attempt, plan.deleted_at)
        self.path = f"{below}/{name}".lstrip("/")
        self._sink = plan.outputs.create(self.path)
        # Binary columns (keys, values) hardly repeat, and their bounds are useless.
        small = [each.name for each in plan.file_schema if not is_bulky(each.type)]
        self._writer = pq.ParquetWriter(
            self._sink,
            plan.file_schema,
            compression=plan.settings.compression,
            use_dictionary=small,
            write_statistics=small,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0

    def add(self, rows: pa.RecordBatch) -> bool:
        """Add rows; returns whether the file has reached its size."""
        self._waiting.append(rows.select(self._plan.file_schema.names))
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write()
        return self._sink.tell() >= self._plan.settings.file_bytes

    def finish(self) -> Staged:
        """Write the remaining rows and close the file."""
        self._write()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        footer = self._writer.writer.metadata
        return Staged(self.path, self._rows, size, dict(self._partition), delta_statistics(footer))

    def give_up(self) -> None:
        """Close the incomplete file, which is not reported."""
        self._writer.close()
        self._sink.close()

    def _write(self) -> None:
        if self._waiting_rows:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
            self._rows += self._waiting_rows
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def is_bulky(kind: pa.DataType) -> bool:
    """Whether such a column has no statistics, and no dictionary."""
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind))
