"""The index of a table's keys, kept in step with an Iceberg table; its files are all it is made of.

After an own commit the index takes what that changed. If others committed in between, what they did is seen in the
lists of files: files that are gone (compaction, deletion), new files, whose keys are read, and new delete files. When
the snapshot that it knew is no ancestor of the current one (a rollback, an expired history), it is made anew, as it is
when a process starts.

**Remembered deletions** are data files whose every row is deleted: `deletions-<attempt>-<seconds>-....parquet`, with
keys and sequences. No reader shows their rows, every tool that lists a table's files keeps them, and compaction
drops those that are older than they have to be kept. (pyiceberg's own `delete` drops all that may match.) A row that a
change added hides the deletions before it, until others delete that row: then the files are read again, so that a
change before such a deletion is late, as it is to a new process.

The index is memory of the driver: 28 bytes for each key, and its sequence. A table of more than
`Upsert.indexed_keys_max` keys has none: for each batch one is made of the batch's keys alone, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables.file_names import deletions_time
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.iceberg.positions import deleted_rows
from sordini.pipeline.tables.key_fingerprints import Fingerprints
from sordini.pipeline.tables.key_index import Entries
from sordini.pipeline.tables.key_places import FileRows, KeyPlaces, Places
from sordini.pipeline.tables.upsert import Upsert


class BatchKeys(NamedTuple):
    """The keys of a batch, by which a table without an index is searched."""

    keys: Fingerprints
    rows: pa.Table
    """The columns of the keys, under the table's names."""

    def where(self, table: IcebergTable) -> BooleanExpression:
        """What the rows of these keys satisfy, by the bounds of integers and texts.

        Files of deletions have no bounds, and are in the partition of nulls: a partition's column says nothing.
        """
        by = {table.schema().find_column_name(each.source_id) for each in table.spec().fields}
        found: BooleanExpression = AlwaysTrue()
        for name in self.rows.column_names:
            low, high = pc.min_max(self.rows[name]).as_py().values()
            if name not in by and isinstance(low, int | str) and not isinstance(low, bool):
                # pydantic's plugin takes the fields for the arguments.
                found = And(found, GreaterThanOrEqual(name, low), LessThanOrEqual(name, high))  # type: ignore[call-arg, arg-type]
        return found


class IcebergKeyPlaces:
    """See above; of the keys and sequence of one job."""

    def __init__(self, how: Upsert, only: BatchKeys | None = None) -> None:
        """With `only` the keys of a batch alone: the files that may have one of them are read, and nothing is kept."""
        self.how = how
        self._only = only
        self._places = KeyPlaces(how, only.keys if only else None)
        self._reset()

    def _reset(self) -> None:
        self._places.clear()
        self._snapshot_id: int | None = None
        self._columns: pa.Schema | None = None
        self._files: dict[str, DataFile] = {}
        self._delete_files: set[str] = set()

    def follow(self, table: IcebergTable | None, columns: pa.Schema) -> bool:
        """Bring the index to the table's current snapshot; `columns` are those of keys and sequence.

        False if the table has more keys than `Upsert.indexed_keys_max`: then there is none. Raises RepeatedKeys.
        """
        if table is None:
            self._reset()
            self._columns = columns
            return True
        snapshot = table.current_snapshot()
        if columns != self._columns or (self._snapshot_id is not None and not _has_ancestor(table, self._snapshot_id)):
            self._reset()
            self._columns = columns
        if snapshot is None or snapshot.snapshot_id == self._snapshot_id:
            return True
        tasks = {task.file.file_path: task for task in planned(table, self._only.where(table) if self._only else None)}
        if self._only is None and _keys_of(tasks.values()) > self.how.indexed_keys_max:
            self._reset()
            return False
        try:
            self._take(table, tasks)
        except BaseException:  # All of them - what was read in part would be the whole to the next batch.
            self._reset()
            raise
        self._snapshot_id = snapshot.snapshot_id
        return True

    def _take(self, table: IcebergTable, tasks: Mapping[str, FileScanTask]) -> None:
        """Bring the index to these files."""
        known = [task for path, task in tasks.items() if path in self._files]
        new = [task for path, task in tasks.items() if path not in self._files]
        removed = self._places.remove(list(self._files.keys() - tasks.keys()), self._deletes(table, known))
        self._files = {path: file for path, file in self._files.items() if path in tasks}
        self._take_files(table, new)
        if self._places.are_forgotten(removed):
            self._remember(table, tasks.values())
        self._delete_files = {each.file_path for task in tasks.values() for each in task.delete_files}

    def __len__(self) -> int:
        """Entries of the index, also former ones that it still has."""
        return len(self._places)

    def places(self, keys: Fingerprints, sequence: pa.Table) -> Places:
        """Where the rows of these keys are; which changes of them, of these sequences, are late."""
        return self._places.places(keys, sequence)

    def file(self, number: int) -> DataFile:
        """The file of this number, as in `Places`."""
        return self._files[self._places.name_of(number)]

    def take_commit(self, snapshot_id: int, files: Iterable[DataFile], deletes: Iterable[DataFile]) -> list[int]:
        """Note a commit of this process, on top of the snapshot that was followed; returns the numbers of `files`."""
        self._snapshot_id = snapshot_id
        self._delete_files |= {each.file_path for each in deletes}
        return [self._number(each) for each in files]

    def add(self, entries: Entries) -> None:
        """Add the changes of a commit of this process."""
        self._places.add(entries)

    def _number(self, file: DataFile) -> int:
        self._files[file.file_path] = file
        return self._places.add_file(file.file_path)

    def _deletes(self, table: IcebergTable, known: list[FileScanTask]) -> Mapping[str, np.ndarray]:
        """Rows of files in the index that others have deleted."""
        unread = {each for task in known for each in task.delete_files if each.file_path not in self._delete_files}
        if not unread:
            return {}
        return deleted_rows(table.io, [FileScanTask(task.file, task.delete_files & unread) for task in known])

    def _take_files(self, table: IcebergTable, new: list[FileScanTask]) -> None:
        """The rows of files that the index lacks; a deletion of a key that has a row is older than that row."""
        if not new:
            return
        rows = [task for task in new if deletions_time(task.file.file_path) is None]
        deleted = deleted_rows(table.io, rows)
        read = Reader(table, self._columns or pa.schema([]))
        self._places.add_rows(
            FileRows(task.file.file_path, read(task), deleted.get(task.file.file_path)) for task in rows
        )
        self._files |= {task.file.file_path: task.file for task in rows}
        for task in new:
            if deletions_time(task.file.file_path) is not None:
                self._number(task.file)
        self._remember(table, new)

    def _remember(self, table: IcebergTable, tasks: Iterable[FileScanTask]) -> None:
        """What files of deletions say of keys that have no row."""
        read = Reader(table, self._columns or pa.schema([]))
        for task in tasks:
            seconds = deletions_time(task.file.file_path)
            if seconds is not None and self._places.is_remembered(seconds):
                self._places.add_deletions(read(task), seconds)


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


def _has_ancestor(table: IcebergTable, snapshot_id: int) -> bool:
    """Whether the current snapshot is this one, or comes from it."""
    parents = {each.snapshot_id: each.parent_snapshot_id for each in table.metadata.snapshots}
    at = table.metadata.current_snapshot_id
    while at is not None and at != snapshot_id:
        at = parents.get(at)
    return at is not None


def _keys_of(tasks: Iterable[FileScanTask]) -> int:
    """Rows and remembered deletions."""
    rows = 0
    deletes: dict[str, int] = {}
    for task in tasks:
        # All rows of a file of deletions are deleted, and remembered.
        rows += task.file.record_count * (1 if deletions_time(task.file.file_path) is None else 2)
        deletes |= {each.file_path: each.record_count for each in task.delete_files}
    return rows - sum(deletes.values())
