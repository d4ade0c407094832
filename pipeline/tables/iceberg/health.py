"""Examines an Iceberg table: its metadata, and a listing of its folder, if it is in one."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables.compaction import is_small
from sordini.pipeline.tables.file_names import deletions_time
from sordini.pipeline.tables.health import TableHealth
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.local_files import local_path


def examine(
    table: IcebergTable, writer_property: str, keys: tuple[str, ...], target_bytes: int, older_than_seconds: float
) -> TableHealth:
    """Outside a folder neither missing nor orphaned files are found, as no list of them is to be had."""
    tasks = planned(table)
    files = [task.file for task in tasks if deletions_time(task.file.file_path) is None]
    deletes = {file.file_path for task in tasks for file in task.delete_files}
    used = [*(file.file_path for file in files), *deletes]
    orphaned = _orphaned(table, older_than_seconds)
    return TableHealth(
        kind="iceberg",
        location=table.location(),
        files=len(files),
        bytes=sum(file.file_size_in_bytes for file in files),
        small_files=sum(is_small(file.file_size_in_bytes, target_bytes) for file in files),
        delete_files=len(deletes),
        versions=len(table.snapshots()),
        log_files=1 + len(table.metadata.metadata_log),
        missing=tuple(sorted(path for path in used if (at := local_path(path)) is not None and not at.exists())),
        orphaned=tuple(str(path) for path in orphaned),
        orphaned_bytes=sum(path.stat().st_size for path in orphaned),
        writers={
            name.removeprefix(writer_property): json.loads(text)
            for name, text in table.properties.items()
            if name.startswith(writer_property)
        },
        columns=tuple(table.schema().column_names),
        keys=keys,
    )


def _orphaned(table: IcebergTable, older_than_seconds: float) -> list[Path]:
    folder = local_path(table.location())
    if folder is None:
        return []
    named = {local_path(path) for path in table.inspect.all_files()["file_path"].to_pylist()}
    since = time.time() - older_than_seconds
    found = sorted(Path(folder, "data").rglob("*.parquet"))
    return [path for path in found if path not in named and path.stat().st_mtime <= since]
