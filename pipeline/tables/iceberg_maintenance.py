"""Compaction and clean-up of Iceberg tables, which pyiceberg does not have."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, parquet_files_to_data_files
from pyiceberg.table import FileScanTask

from sordini.pipeline.tables.compaction import Small, bins, rewrite
from sordini.pipeline.tables.file_names import DATA_FILE, new_attempt
from sordini.pipeline.tables.local_files import local_path
from sordini.pipeline.tables.staging import Staged, StagingPlan
from sordini.pipeline.tables.table import Compacted, TableError

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

COMMIT_TRIES = 20

EXPIRY_PROPERTY = "history.expire.max-snapshot-age-ms"
EXPIRY_MS = 5 * 24 * 60 * 60 * 1000
"""Iceberg's own default."""


def compact(
    table: IcebergTable, plan: StagingPlan, target_bytes: int, once: Callable[[IcebergTable], IcebergTable]
) -> Compacted:
    """Merge small files, with one commit for each group. Files with deleted rows are skipped."""
    done = Compacted(0, 0, 0, 0)
    tasks = {task.file.file_path: task for task in table.scan().plan_files() if not task.delete_files}
    small = [
        Small(
            path, task.file.file_size_in_bytes, tuple(task.file.partition[at] for at in range(len(plan.partition_by)))
        )
        for path, task in sorted(tasks.items())
        if task.file.spec_id == table.spec().spec_id
    ]
    for group in bins(small, target_bytes):
        old = [tasks[each.path] for each in group]
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        new = rewrite(scan.to_record_batches(old), replace(plan, attempt=new_attempt()))
        if _replace(table, old, new, once):
            before, after = sum(each.bytes for each in group), sum(each.bytes for each in new)
            done = Compacted(*map(sum, zip(done, (len(group), len(new), before, after), strict=True)))
    return done


def _replace(
    table: IcebergTable, old: list[FileScanTask], new: list[Staged], once: Callable[[IcebergTable], IcebergTable]
) -> bool:
    """Commit new files for old ones; False if one of the old ones was replaced meanwhile."""
    paths = [f"{table.location()}/data/{each.path}" for each in new]
    for _ in range(COMMIT_TRIES):
        live = {task.file.file_path for task in table.scan().plan_files() if not task.delete_files}
        if not all(task.file.file_path in live for task in old):
            return False
        try:
            with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
                for task in old:
                    overwrite.delete_data_file(task.file)
                for file in parquet_files_to_data_files(table.io, change.table_metadata, iter(paths)):
                    overwrite.append_data_file(file)
        except CommitFailedException:
            once(table.refresh())
            continue
        return True
    raise TableError(f"{table.location()} was not compacted: {COMMIT_TRIES} times another writer was faster")


def clean_up(table: IcebergTable, older_than_seconds: float) -> list[str]:
    """Expire old snapshots, and delete Sordini's data files that no snapshot names. In a local folder only."""
    if local_path(table.location()) is None:
        raise TableError(f"{table.location()} is not a folder: use the catalog's own removal of orphan files")
    kept = dt.timedelta(milliseconds=int(table.properties.get(EXPIRY_PROPERTY, EXPIRY_MS)))
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    table.maintenance.expire_snapshots().older_than(now - kept).commit()
    since = time.time() - older_than_seconds
    deleted = [path for path in uncommitted_files(table.refresh()) if path.stat().st_mtime <= since]
    for path in deleted:
        path.unlink(missing_ok=True)
    return [str(path) for path in deleted]


def uncommitted_files(table: IcebergTable) -> list[Path]:
    """Sordini's data files that no snapshot names; none if the table is not in a folder."""
    folder = local_path(table.location())
    found = sorted(Path(folder, "data").rglob("part-*.parquet")) if folder else []
    named = {local_path(path) for path in table.inspect.all_files()["file_path"].to_pylist()}
    return [path for path in found if DATA_FILE.fullmatch(path.name) and path not in named]
