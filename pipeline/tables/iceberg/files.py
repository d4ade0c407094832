"""The data files of an Iceberg table: those it has, and the entries of new ones."""

from __future__ import annotations

from typing import Final

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Transaction
from pyiceberg.table import Table as IcebergTable
from pyiceberg.typedef import Record

from sordini.pipeline.tables.staging import Staged
from sordini.pipeline.tables.table import TableError

KEPT_PROPERTY: Final = "sordini.deletions-kept-seconds"
"""Of the table: for how long compaction has to keep remembered deletions."""


def planned(table: IcebergTable, wanted: BooleanExpression | None = None) -> list[FileScanTask]:
    """The current data files that can have such rows, with their delete files.

    Raises TableError if rows are deleted by equality.
    """
    try:
        return list(table.scan(row_filter=wanted or AlwaysTrue()).plan_files())
    except ValueError as error:
        raise TableError(f"{table.location()}: {error}") from error


def rows_file(change: Transaction, uri: str) -> DataFile:
    """The entry of a file of rows, of the table's current partitioning."""
    metadata = change.table_metadata
    made = parquet_file_to_data_file(change._table.io, metadata, uri)  # noqa: SLF001 - it has none that is public
    made.spec_id = metadata.default_spec_id
    return made


def deletions_file(change: Transaction, uri: str, file: Staged) -> DataFile:
    """The entry of a file of deletions, which is in the partition of nulls: no value of it is ever read."""
    spec = change.table_metadata.spec()
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*[None] * len(spec.fields)),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
    )
    made.spec_id = spec.spec_id
    return made
