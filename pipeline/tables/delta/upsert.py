"""Upserts of Delta tables by deletion vectors: no row is rewritten, so a batch costs what it has, not what a table has.

A batch adds files with its rows. The former rows of its keys are found by reading the key columns of the files that
may have them (by their statistics), and are deleted in the vectors of their files. All of it is one commit, made
here: deltalake reads deletion vectors and does not write them.

With a sequence, deletions are remembered in files of the table whose rows are all deleted: they have keys and
sequence, and no reader returns a row of them. They are removed by a later batch after `deletions_kept_seconds`. That a
change is late is seen in any file that has its key, deleted rows included: the newest change of a key is a row, or in
a file of deletions, and what else there is of the key is older.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from pyroaring import BitMap64

from sordini.pipeline.tables.batch_upsert import StagedChanges
from sordini.pipeline.tables.delta import deletion_vectors, key_lookup
from sordini.pipeline.tables.delta.log import Action, DeltaLog, LiveFile
from sordini.pipeline.tables.staging import Staged
from sordini.pipeline.tables.table import Written
from sordini.pipeline.tables.upsert import Upsert


class Changes(NamedTuple):
    """What the driver knows of a batch; the arrays have an element for each change."""

    keys: pa.Table
    """As in `key_lookup.py`."""
    files: np.ndarray
    """The number of the staged file, rows first."""
    rows: np.ndarray
    deletes: np.ndarray


class DeltaUpserts:
    """Makes the actions of upserts for one table; remembers vectors that were read."""

    def __init__(self, log: DeltaLog, files: pyarrow.fs.FileSystem) -> None:
        """`files` is the table's folder."""
        self.log = log
        self._files = files
        self._vectors: dict[str, BitMap64] = {}

    def actions(
        self,
        live: Mapping[str, LiveFile],
        staged: StagedChanges,
        schema: pa.Schema,
        partition_by: Sequence[str],
        how: Upsert,
    ) -> tuple[list[Action], Written]:
        """The `add` and `remove` actions of a batch on top of the files of a version. Raises TableError."""
        now_ms = int(time.time() * 1000)
        changes = self._changes(staged, schema, how)
        key_lookup.check_changes(changes.keys, how)
        files = list(live.values())
        found = key_lookup.find_known(changes.keys, self._known(files, changes.keys, schema, how))
        removes, vectors = self._with_deleted([(files[number], rows) for number, rows in found.rows.items()], now_ms)
        adds: dict[str, Action] = {path: {**live[path].add, "dataChange": True} for path in vectors}
        for number, file in enumerate(staged.rows):
            late = BitMap64(changes.rows[(changes.files == number) & found.late & ~changes.deletes].tolist())
            if len(late) < file.rows:
                adds[file.path] = add_of(file, now_ms)
                if late:
                    vectors[file.path] = late
        if how.sequence:
            for file in staged.deletions:
                adds[file.path] = add_of(file._replace(partition=dict.fromkeys(partition_by)), now_ms)
                vectors[file.path] = BitMap64(range(file.rows))
            removes += _expired(files, now_ms - how.deletions_kept_seconds * 1000, now_ms)
        actions = [*removes, *self.with_vectors(adds, vectors)]
        late_changes, deletions = int(found.late.sum()), int((changes.deletes & ~found.late).sum())
        rows = changes.keys.num_rows - late_changes - deletions
        return actions, Written(
            rows, len(staged.rows), staged.bytes, was_there=False, deleted=deletions, late=late_changes
        )

    def vector(self, file: LiveFile) -> BitMap64:
        """The deleted rows of a file. Raises TableError."""
        descriptor = file.add.get("deletionVector")
        if not descriptor:
            return BitMap64()
        name = json.dumps(descriptor, sort_keys=True)
        if name not in self._vectors:
            self._vectors[name] = deletion_vectors.decode(descriptor, self._read)
        return self._vectors[name]

    def forget_vectors(self, live: Mapping[str, LiveFile]) -> None:
        """Keep the vectors of this version in memory only."""
        kept = {json.dumps(file.add.get("deletionVector"), sort_keys=True) for file in live.values()}
        self._vectors = {name: rows for name, rows in self._vectors.items() if name in kept}

    def live_rows(self, file: LiveFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are not deleted, with those of the columns that the file has."""
        gone = self.vector(file)
        with self._files.open_input_file(file.name) as source, pq.ParquetFile(source) as parquet:
            there = [name for name in columns if name in parquet.schema_arrow.names]
            start = 0
            for batch in parquet.iter_batches(columns=there):
                end = start + batch.num_rows
                deleted = np.array(gone & BitMap64(range(start, end)), dtype=np.int64) - start if gone else ()
                start = end
                if len(deleted) == 0:
                    yield batch
                else:
                    kept = np.ones(batch.num_rows, dtype=bool)
                    kept[deleted] = False
                    yield batch.filter(pa.array(kept))

    def all_rows(self, file: LiveFile) -> pa.Table:
        """The rows of a file, deleted or not, with the columns that it has."""
        with self._files.open_input_file(file.name) as source:
            return pq.read_table(source)

    def _read(self, path: str) -> bytes:
        with self._files.open_input_file(path) as file:
            return bytes(file.read())

    def _changes(self, staged: StagedChanges, schema: pa.Schema, how: Upsert) -> Changes:
        pieces: list[pa.Table] = []
        files: list[np.ndarray] = []
        for number, file in enumerate([*staged.rows, *staged.deletions]):
            pieces.append(self._keys_of(file.path, file.partition, schema, how))
            files.append(np.full(pieces[-1].num_rows, number))
        if not pieces:
            empty = key_lookup.plain_columns(schema.empty_table(), how)
            return Changes(empty, np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))
        numbers = np.concatenate(files)
        rows = np.concatenate([np.arange(len(each)) for each in files])
        return Changes(pa.concat_tables(pieces), numbers, rows, numbers >= len(staged.rows))

    def _known(
        self, files: Sequence[LiveFile], changes: pa.Table, schema: pa.Schema, how: Upsert
    ) -> Iterator[pa.Table]:
        """Keys and sequences of the rows of files that may have one of the keys."""
        if not changes.num_rows:
            return
        bounds = [(name, *pc.min_max(changes.column(f"key{at}")).as_py().values()) for at, name in enumerate(how.keys)]
        for number, file in enumerate(files):
            # Without a sequence deletions are not remembered, and a file in which all is deleted has nothing to find.
            if not _may_have(file, bounds) or (not how.sequence and file.has_deletions_only):
                continue
            rows = self._keys_of(file.name, file.add["partitionValues"], schema, how)
            places = {
                key_lookup.FILE: pa.array(np.full(rows.num_rows, number)),
                key_lookup.ROW: pa.array(np.arange(rows.num_rows)),
            }
            for name, values in places.items():
                rows = rows.append_column(name, values)
            yield rows

    def _keys_of(self, path: str, partition: Mapping[str, str | None], schema: pa.Schema, how: Upsert) -> pa.Table:
        """Keys and sequence of all rows of a file, deleted ones included; partition columns are not in the file."""
        names = list(dict.fromkeys([*how.keys, *how.sequence]))
        with self._files.open_input_file(path) as source, pq.ParquetFile(source) as parquet:
            there = [name for name in names if name in parquet.schema_arrow.names]
            rows = parquet.read(columns=there)
            count = parquet.metadata.num_rows
        columns = {}
        for name in names:
            kind = schema.field(name).type
            if name in there:
                columns[name] = rows.column(name).cast(kind)
            else:
                value = pa.scalar(partition.get(name), pa.string()).cast(kind)
                columns[name] = pa.chunked_array([pa.repeat(value, count)])
        return key_lookup.plain_columns(pa.table(columns), how)

    def _with_deleted(
        self, deleted: Sequence[tuple[LiveFile, np.ndarray]], now_ms: int
    ) -> tuple[list[Action], dict[str, BitMap64]]:
        """Removals of the files as they were, and the new vectors of those that still have rows."""
        removes, vectors = [], {}
        for file, rows in deleted:
            before = self.vector(file)
            after = before | BitMap64(rows.tolist())
            if len(after) == len(before):
                continue
            removes.append(remove_of(file, now_ms))
            if len(after) != file.rows:
                vectors[file.path] = after
        return removes, vectors

    def with_vectors(self, adds: Mapping[str, Action], vectors: Mapping[str, BitMap64]) -> list[Action]:
        """The `add` actions with their vectors, which are written here."""
        descriptors: dict[str, deletion_vectors.Descriptor] = {}
        if vectors:
            name, contents, descriptors = deletion_vectors.encode(vectors)
            self.log.create(name, contents)
        made = []
        for path, add in adds.items():
            if path in descriptors:
                self._vectors[json.dumps(descriptors[path], sort_keys=True)] = vectors[path]
                statistics = json.dumps({**json.loads(add["stats"]), "tightBounds": False})
                made.append({"add": {**add, "stats": statistics, "deletionVector": descriptors[path]}})
            else:
                made.append({"add": dict(add)})
        return made


def add_of(file: Staged, now_ms: int) -> Action:
    """The `add` action of a staged file, without its outer name."""
    return {
        "path": file.path,
        "partitionValues": dict(file.partition),
        "size": file.bytes,
        "modificationTime": now_ms,
        "dataChange": True,
        "stats": file.statistics,
    }


def remove_of(file: LiveFile, now_ms: int, *, is_change: bool = True) -> Action:
    """The `remove` action of a file as it is."""
    kept = {name: file.add[name] for name in ("partitionValues", "size", "tags", "deletionVector") if name in file.add}
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": now_ms,
            "dataChange": is_change,
            "extendedFileMetadata": True,
            **kept,
        }
    }


def _expired(files: Sequence[LiveFile], before_ms: float, now_ms: int) -> list[Action]:
    """Removals of files of deletions that need not be remembered any more."""
    return [
        remove_of(file, now_ms)
        for file in files
        if file.has_deletions_only and file.add["modificationTime"] < before_ms
    ]


def _may_have(file: LiveFile, bounds: Sequence[tuple[str, Any, Any]]) -> bool:
    """Whether a file may have a key within these bounds, by its statistics of integers and texts."""
    statistics = file.statistics
    smallest, greatest = statistics.get("minValues", {}), statistics.get("maxValues", {})
    for name, low, high in bounds:
        if not isinstance(low, int | str) or isinstance(low, bool):
            continue
        if name in smallest and name in greatest and (greatest[name] < low or smallest[name] > high):
            return False
    return True
