"""The index of a table's keys, kept in step with an Iceberg table; its files are all it is made of.

After an own commit the index takes what that changed. If others committed in between, what they did is seen in the
lists of files: files that are gone (compaction, deletion), new files, whose keys are read, and new delete files. When
the snapshot that it knew is no ancestor of the current one (a rollback, an expired history), it is made anew, as it is
when a process starts.

**Remembered deletions** are data files whose every row is deleted: `deletions-<attempt>-<seconds>-....parquet`, with
keys and sequences. No reader shows their rows, every tool that lists a table's files keeps them, and compaction
drops those that are older than they have to be kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables.file_names import deletions_time
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.iceberg.positions import deleted_rows
from sordini.pipeline.tables.key_fingerprints import Fingerprints, fingerprints
from sordini.pipeline.tables.key_index import DELETED, NOWHERE, Entries, KeyIndex, is_greater
from sordini.pipeline.tables.upsert import Upsert


class Places(NamedTuple):
    """Of the keys of a batch, in its order, as the current table has them."""

    file: np.ndarray
    position: np.ndarray
    is_late: np.ndarray


class KeyPlaces:
    """See above; of the keys and sequence of one job."""

    def __init__(self, how: Upsert) -> None:
        self.how = how
        self._reset()

    def _reset(self) -> None:
        self._index = KeyIndex()
        self._snapshot_id: int | None = None
        self._columns: pa.Schema | None = None
        self._numbers: dict[str, int] = {}
        self._delete_files: set[str] = set()
        self.files: list[DataFile | None] = []
        """By their numbers in the index; None for those that are gone."""

    def follow(self, table: IcebergTable | None, columns: pa.Schema) -> None:
        """Bring the index to the table's current snapshot; `columns` are those of keys and sequence."""
        if table is None:
            self._reset()
            self._columns = columns
            return
        snapshot = table.current_snapshot()
        if columns != self._columns or (self._snapshot_id is not None and not _has_ancestor(table, self._snapshot_id)):
            self._reset()
            self._columns = columns
        if snapshot is None or snapshot.snapshot_id == self._snapshot_id:
            return
        tasks = {task.file.file_path: task for task in planned(table)}
        gone = [number for path, number in self._numbers.items() if path not in tasks]
        self._index.remove_files(gone)
        for number in gone:
            self.files[number] = None
        self._numbers = {path: number for path, number in self._numbers.items() if path in tasks}
        known = [task for path, task in tasks.items() if path in self._numbers]
        new = [task for path, task in tasks.items() if path not in self._numbers]
        self._take_deletes(table, known)
        self._take_files(table, new)
        self._delete_files = {each.file_path for task in tasks.values() for each in task.delete_files}
        self._snapshot_id = snapshot.snapshot_id

    def places(self, keys: Fingerprints, sequence: pa.Table) -> Places:
        """Where the rows of these keys are; which changes of them, of these sequences, are late."""
        file, position, known = self._index.lookup(keys)
        is_late = is_greater(known, sequence) if known is not None else np.zeros(len(file), dtype=bool)
        return Places(file, position, is_late)

    def take_commit(self, snapshot_id: int, files: Iterable[DataFile], deletes: Iterable[DataFile]) -> list[int]:
        """Note a commit of this process, on top of the snapshot that was followed; returns the numbers of `files`."""
        self._snapshot_id = snapshot_id
        self._delete_files |= {each.file_path for each in deletes}
        return [self._number(each) for each in files]

    def add(self, entries: Entries) -> None:
        """Add the changes of a commit of this process."""
        since = time.time() - self.how.deletions_kept_seconds
        self._index.add(entries, since)

    def _number(self, file: DataFile) -> int:
        self._numbers[file.file_path] = len(self.files)
        self.files.append(file)
        return len(self.files) - 1

    def _take_deletes(self, table: IcebergTable, known: list[FileScanTask]) -> None:
        """Rows of files in the index that others have deleted."""
        unread = {each for task in known for each in task.delete_files if each.file_path not in self._delete_files}
        if not unread:
            return
        narrowed = [FileScanTask(task.file, task.delete_files & unread) for task in known]
        for path, positions in deleted_rows(table.io, narrowed).items():
            self._index.remove_rows(np.full(len(positions), self._numbers[path]), positions)

    def _take_files(self, table: IcebergTable, new: list[FileScanTask]) -> None:
        """The rows of files that the index lacks; a deletion of a key that has a row is older than that row."""
        if not new:
            return
        rows = [task for task in new if deletions_time(task.file.file_path) is None]
        deleted = deleted_rows(table.io, rows)
        read = Reader(table, self._columns or pa.schema([]))
        found = [self._entries(task, read, deleted.get(task.file.file_path)) for task in rows]
        if found:
            self._index.add(_joined(found))
        since = time.time() - self.how.deletions_kept_seconds
        for task in new:
            seconds = deletions_time(task.file.file_path)
            if seconds is not None and seconds >= since and self.how.sequence:
                self._index.add(self._deletions(task, read, seconds))

    def _entries(self, task: FileScanTask, read: Reader, deleted: np.ndarray | None) -> Entries:
        rows = read(task)
        number = self._number(task.file)
        entries = self._of_rows(rows, np.full(rows.num_rows, number, dtype=np.int32), np.arange(rows.num_rows))
        return entries if deleted is None else entries.taken(np.setdiff1d(entries.position, deleted))

    def _deletions(self, task: FileScanTask, read: Reader, seconds: int) -> Entries:
        """Those that are newer than what the index has of their keys; of several of one key the newest is the first."""
        rows = read(task).sort_by([(name, "descending") for name in self.how.sequence])
        self._number(task.file)
        count = rows.num_rows
        entries = self._of_rows(rows, np.full(count, DELETED, dtype=np.int32), np.full(count, seconds))
        file, _, known = self._index.lookup(entries.keys)
        is_newer = is_greater(entries.sequence, known) if known is not None else np.zeros(count, dtype=bool)
        return entries.taken((file == NOWHERE) | ((file == DELETED) & is_newer))

    def _of_rows(self, rows: pa.Table, file: np.ndarray, position: np.ndarray) -> Entries:
        return Entries(
            fingerprints(rows, self.how.keys),
            file.astype(np.int32),
            position.astype(np.int64),
            sequence_of(rows, self.how.sequence),
        )


class Reader:
    """Reads columns of whole data files, all rows in their order; `columns` are the table's."""

    def __init__(self, table: IcebergTable, columns: pa.Schema) -> None:
        self._columns = columns
        schema = table.schema().select(*columns.names)
        self._scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())

    def __call__(self, task: FileScanTask) -> pa.Table:
        batches = list(self._scan.to_record_batches([FileScanTask(task.file)]))
        rows = pa.Table.from_batches(batches) if batches else self._columns.empty_table()
        return rows.select(self._columns.names).cast(self._columns)


def sequence_of(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The sequence's columns; if there are none, one of nulls, of which none is greater."""
    if names:
        return rows.select(list(names))
    return pa.table({"none": pa.nulls(rows.num_rows, pa.int8())})


def _joined(found: list[Entries]) -> Entries:
    keys = Fingerprints(
        np.concatenate([each.keys.first for each in found]), np.concatenate([each.keys.second for each in found])
    )
    return Entries(
        keys,
        np.concatenate([each.file for each in found]),
        np.concatenate([each.position for each in found]),
        pa.concat_tables([each.sequence for each in found]),
    )


def _has_ancestor(table: IcebergTable, snapshot_id: int) -> bool:
    """Whether the current snapshot is this one, or comes from it."""
    parents = {each.snapshot_id: each.parent_snapshot_id for each in table.metadata.snapshots}
    at = table.metadata.current_snapshot_id
    while at is not None and at != snapshot_id:
        at = parents.get(at)
    return at is not None
