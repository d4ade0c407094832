"""Examines a Delta table: its log, and a listing of its folder."""

from __future__ import annotations

import time
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
from deltalake import DeltaTable

from sordini.pipeline.tables.compaction import is_small
from sordini.pipeline.tables.delta.commit_infos import LOG, CommitInfos
from sordini.pipeline.tables.delta.features import stored_keys
from sordini.pipeline.tables.delta.positions import LOG_FILE, all_positions
from sordini.pipeline.tables.health import TableHealth


def examine(
    table: DeltaTable,
    files: pyarrow.fs.FileSystem,
    commits: CommitInfos,
    vectors: int,
    target_bytes: int,
    older_than_seconds: float,
) -> TableHealth:
    """`files` is the table's folder, `commits` its newest, `vectors` the number of deletion vectors."""
    rows = pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
    named = {unquote(row["path"]) for row in rows}
    # What vacuum would delete without regard to age, less what it knows of: files that no commit names.
    listed, removed = (
        set(table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=full)) for full in (True, False)
    )
    found = [files.get_file_info(path) for path in sorted(listed - removed) if path.endswith(".parquet")]
    since = time.time() - older_than_seconds
    orphaned = [info for info in found if info.mtime is not None and info.mtime.timestamp() <= since]
    log = [info.base_name for info in files.get_file_info(pyarrow.fs.FileSelector(LOG))]
    versions = [name for name in log if LOG_FILE.fullmatch(name) and name.endswith(".json")]
    return TableHealth(
        kind="delta",
        location=table.table_uri,
        files=len(rows),
        bytes=sum(row["size_bytes"] for row in rows),
        small_files=sum(is_small(row["size_bytes"], target_bytes) for row in rows),
        delete_files=vectors,
        versions=len(versions),
        log_files=len(log),
        missing=tuple(_missing(files, sorted(named))),
        orphaned=tuple(info.path for info in orphaned),
        orphaned_bytes=sum(info.size or 0 for info in orphaned),
        writers=all_positions(commits),
        columns=tuple(field.name for field in table.schema().fields),
        keys=stored_keys(table) or (),
    )


def _missing(files: pyarrow.fs.FileSystem, paths: list[str]) -> list[str]:
    return [
        path
        for path, info in zip(paths, files.get_file_info(paths), strict=True)
        if info.type is not pyarrow.fs.FileType.File
    ]
