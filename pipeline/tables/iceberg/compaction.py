"""Compaction of Iceberg tables, which pyiceberg does not have: data files, remembered deletions, delete files.

Small data files are merged, and files with many deleted rows are written again without them. Upserts that are committed
meanwhile stop none of it: the rows of old files that they delete are deleted in the new file, by the commit that
replaces them. Files of deletions are merged by the day on which they were made, and removed when they have been kept
for long enough. Then the delete files of a partition become one, without the rows of files that are gone.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import FileScanTask, Transaction
from pyiceberg.table import Table as IcebergTable
from pyiceberg.typedef import Record

from sordini.pipeline.tables.compaction import Small, bins, rewrite
from sordini.pipeline.tables.file_names import deletions_time, new_attempt
from sordini.pipeline.tables.iceberg.files import KEPT_PROPERTY, deletions_file, planned, rows_file
from sordini.pipeline.tables.iceberg.positions import PositionsOutput, deleted_rows, read_positions
from sordini.pipeline.tables.iceberg.row_delta import FileChanges, RowDelta
from sordini.pipeline.tables.staging import Staged, StagingPlan
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted, TableError
from sordini.pipeline.tables.upsert import DELETIONS_KEPT_SECONDS

COMMIT_TRIES: Final = 20
DELETED_SHARE: Final = 0.25
"""A file of which this share of the rows is deleted is written again, also alone."""
STAGING_SECONDS_MAX: Final = 60 * 60
"""Between the time in the name of a file of deletions and its commit: it is kept for so much longer."""

Once = Callable[[IcebergTable], IcebergTable]
"""Switches pyiceberg's own retries off."""


class Old(NamedTuple):
    """A data file that is to be replaced."""

    task: FileScanTask
    deleted: np.ndarray
    """The positions of its deleted rows, when it was read."""

    @property
    def rows(self) -> int:
        return int(self.task.file.record_count)

    @property
    def live_bytes(self) -> int:
        share = 1 - len(self.deleted) / self.rows if self.rows else 0.0
        return round(self.task.file.file_size_in_bytes * share)


def compact(
    table: IcebergTable, plan: StagingPlan, target_bytes: int, cluster_by: Sequence[str], once: Once
) -> Compacted:
    """All of the above, with a commit for each group of files; counts what became of data files.

    The rows of a new data file are ordered by `cluster_by`.
    """
    done = Compacted(0, 0, 0, 0)
    for group in _groups(table, plan, target_bytes):
        output = _output(table, plan)
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        new = rewrite(scan.to_record_batches([old.task for old in group]), output.plan, cluster_by)
        if _replace_rows(table, group, new, output, once, is_ordered=bool(cluster_by)):
            before, after = sum(old.task.file.file_size_in_bytes for old in group), sum(each.bytes for each in new)
            done = Compacted(*map(sum, zip(done, (len(group), len(new), before, after), strict=True)))
    _compact_deletions(table, plan, once)
    _compact_positions(table, plan, once)
    return done


def _output(table: IcebergTable, plan: StagingPlan) -> PositionsOutput:
    return PositionsOutput(replace(plan, attempt=new_attempt()), f"{table.location()}/data")


def _groups(table: IcebergTable, plan: StagingPlan, target_bytes: int) -> list[list[Old]]:
    """The files that become one each."""
    tasks = [task for task in planned(table) if deletions_time(task.file.file_path) is None]
    tasks = [task for task in tasks if task.file.spec_id == table.spec().spec_id]
    deleted = deleted_rows(table.io, tasks)
    none = np.zeros(0, dtype=np.int64)
    files = {task.file.file_path: Old(task, deleted.get(task.file.file_path, none)) for task in tasks}
    columns = range(len(plan.partition_by))
    small = [
        Small(path, old.live_bytes, tuple(old.task.file.partition[at] for at in columns))
        for path, old in sorted(files.items())
    ]
    found = [[files[each.path] for each in group] for group in bins(small, target_bytes)]
    taken = {old.task.file.file_path for group in found for old in group}
    alone = (old for path, old in sorted(files.items()) if path not in taken)
    return found + [[old] for old in alone if len(old.deleted) and len(old.deleted) >= DELETED_SHARE * old.rows]


def _replace_rows(
    table: IcebergTable,
    group: Sequence[Old],
    new: Sequence[Staged],
    output: PositionsOutput,
    once: Once,
    *,
    is_ordered: bool,
) -> bool:
    """Commit new files for old ones; False if one of the old ones was replaced meanwhile.

    Where rows are in another order than in the old files, also if one of those was deleted meanwhile.
    """

    def changes(change: Transaction, tasks: Mapping[str, FileScanTask]) -> FileChanges | None:
        if not all(old.task.file.file_path in tasks for old in group):
            return None
        added = [rows_file(change, f"{output.below}/{each.path}") for each in new]
        now = [tasks[old.task.file.file_path] for old in group]
        moved = _moved(group, deleted_rows(table.io, now))
        if len(moved) and is_ordered:
            return None
        deletes = output.write([(added[0], moved)]) if len(moved) else []
        return FileChanges([*added, *deletes], [old.task.file for old in group])

    return _commit(table, changes, once)


def _moved(group: Sequence[Old], deleted: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where in the new file the rows are that were deleted since the old files were read."""
    moved, before = [np.zeros(0, dtype=np.int64)], 0
    for old in group:
        since = np.setdiff1d(deleted.get(old.task.file.file_path, old.deleted), old.deleted)
        # A row has moved up by the deleted ones above it.
        moved.append(before + since - np.searchsorted(old.deleted, since))
        before += old.rows - len(old.deleted)
    return np.concatenate(moved)


def _compact_deletions(table: IcebergTable, plan: StagingPlan, once: Once) -> None:
    """Remove old files of deletions, and merge those of each day."""
    kept = float(table.properties.get(KEPT_PROPERTY, DELETIONS_KEPT_SECONDS)) + STAGING_SECONDS_MAX
    days: dict[int, list[tuple[int, FileScanTask]]] = defaultdict(list)
    for task in planned(table):
        seconds = deletions_time(task.file.file_path)
        if seconds is not None:
            is_over = seconds < time.time() - kept
            days[-1 if is_over else seconds // DAY_SECONDS].append((seconds, task))
    for day, files in days.items():
        if day == -1 or len(files) > 1:
            _replace_deletions(table, files, plan, once, is_over=day == -1)


def _replace_deletions(
    table: IcebergTable, files: Sequence[tuple[int, FileScanTask]], plan: StagingPlan, once: Once, *, is_over: bool
) -> None:
    output, staged = _output(table, plan), []
    if not is_over:
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        rows = scan.to_record_batches([FileScanTask(task.file) for _, task in files])
        newest = max(seconds for seconds, _ in files)
        staged = rewrite(rows, replace(output.plan, partition_by=(), deleted_at=newest))

    def changes(change: Transaction, tasks: Mapping[str, FileScanTask]) -> FileChanges | None:
        if not all(task.file.file_path in tasks for _, task in files):
            return None
        added = [deletions_file(change, f"{output.below}/{each.path}", each) for each in staged]
        deletes = output.write([(each, np.arange(each.record_count)) for each in added])
        return FileChanges([*added, *deletes], [task.file for _, task in files])

    _commit(table, changes, once)


def _compact_positions(table: IcebergTable, plan: StagingPlan, once: Once) -> None:
    """Make the delete files of each partition one."""
    output = _output(table, plan)

    def changes(_: Transaction, tasks: Mapping[str, FileScanTask]) -> FileChanges | None:
        groups: dict[tuple[int, Record], list[DataFile]] = defaultdict(list)
        for file in _delete_files(table):
            groups[file.spec_id, file.partition].append(file)
        removed, kept = [], []
        for files in groups.values():
            read = read_positions(table.io, files)
            needed = [{path: rows for path, rows in each.items() if path in tasks} for each in read.values()]
            if len(files) == 1 and needed[0]:
                continue
            removed += files
            paths = {path for each in needed for path in each}
            for path in paths:
                positions = np.concatenate([each[path] for each in needed if path in each])
                kept.append((tasks[path].file, positions))
        return FileChanges(output.write(kept), removed) if removed else None

    _commit(table, changes, once)


def _delete_files(table: IcebergTable) -> Iterator[DataFile]:
    """All of the current snapshot, also those that apply to no data file any more."""
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else []:
        if manifest.content == ManifestContent.DELETES:
            yield from (entry.data_file for entry in manifest.fetch_manifest_entry(table.io))


def _commit(
    table: IcebergTable,
    changes: Callable[[Transaction, Mapping[str, FileScanTask]], FileChanges | None],
    once: Once,
) -> bool:
    """Commit what `changes` makes of the current data files; False if it makes nothing of them."""
    for _ in range(COMMIT_TRIES):
        files: FileChanges | None = None
        try:
            with table.transaction() as change:
                files = changes(change, {task.file.file_path: task for task in planned(table)})
                if files is None:
                    return False
                RowDelta(change, files, {}).commit()
        except (CommitFailedException, FileNotFoundError):
            once(table.refresh())
            continue
        return True
    raise TableError(f"{table.location()} was not compacted: {COMMIT_TRIES} times another writer was faster")
