"""Examines an Iceberg table: its metadata, and a listing of its files."""

from __future__ import annotations

import json
import time

from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables.compaction import is_small
from sordini.pipeline.tables.file_names import deletions_time
from sordini.pipeline.tables.health import TableHealth
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.iceberg.maintenance import TableFile, can_list, listed_data, plain_path
from sordini.pipeline.tables.local_files import local_path


def examine(
    table: IcebergTable, writer_property: str, keys: tuple[str, ...], target_bytes: int, older_than_seconds: float
) -> TableHealth:
    """Where the catalog's file system cannot list, orphaned files are not found, and missing ones in a store."""
    tasks = planned(table)
    files = [task.file for task in tasks if deletions_time(task.file.file_path) is None]
    deletes = {file.file_path for task in tasks for file in task.delete_files}
    used = {plain_path(path) for path in [*(file.file_path for file in files), *deletes]}
    listed = listed_data(table) if can_list(table) else None
    orphaned = _orphaned(table, listed or [], older_than_seconds)
    return TableHealth(
        kind="iceberg",
        location=table.location(),
        files=len(files),
        bytes=sum(file.file_size_in_bytes for file in files),
        small_files=sum(is_small(file.file_size_in_bytes, target_bytes) for file in files),
        delete_files=len(deletes),
        versions=len(table.snapshots()),
        log_files=1 + len(table.metadata.metadata_log),
        missing=tuple(_missing(table, listed, used)),
        orphaned=tuple(plain_path(file.uri) for file in orphaned),
        orphaned_bytes=sum(file.bytes for file in orphaned),
        writers={
            name.removeprefix(writer_property): json.loads(text)
            for name, text in table.properties.items()
            if name.startswith(writer_property)
        },
        columns=tuple(table.schema().column_names),
        keys=keys,
    )


def _missing(table: IcebergTable, listed: list[TableFile] | None, used: set[str]) -> list[str]:
    """The used files that are not in the listing, and outside of it those that this machine lacks."""
    below = f"{plain_path(table.location())}/data/"
    inside = set() if listed is None else {path for path in used if path.startswith(below)}
    absent = {path for path in used - inside if (at := local_path(path)) is not None and not at.exists()}
    return sorted(absent | (inside - {plain_path(file.uri) for file in listed or ()}))


def _orphaned(table: IcebergTable, listed: list[TableFile], older_than_seconds: float) -> list[TableFile]:
    named = {plain_path(path) for path in table.inspect.all_files()["file_path"].to_pylist()}
    since = time.time() - older_than_seconds
    found = (file for file in listed if file.name.endswith(".parquet") and file.changed_seconds <= since)
    return [file for file in found if plain_path(file.uri) not in named]
