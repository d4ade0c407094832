"""Upserts of Delta tables by deletion vectors: no row is rewritten, so a batch costs what it has, not what a table has.

A batch adds files with its rows. The former rows of its keys are found by an index of the keys (`key_places.py`), and
are deleted in the vectors of their files. A table that has too many keys for an index is searched: the key columns of
the files that may have the keys, by their statistics, are read (`key_lookup.py`). All of it is one commit, made here:
deltalake reads deletion vectors and does not write them.

With a sequence, deletions are remembered in files of the table whose rows are all deleted: they have keys and
sequence, and no reader returns a row of them. They are removed by a later batch after `deletions_kept_seconds`. The
newest change of a key is a row, or in a file of deletions; what else there is of the key is older.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from pyroaring import BitMap64

from sordini.pipeline.tables.arrow_reading import parquet_file
from sordini.pipeline.tables.batch_upsert import StagedChanges
from sordini.pipeline.tables.delta import deletion_vectors, key_lookup
from sordini.pipeline.tables.delta.key_files import Changes, KeyFiles
from sordini.pipeline.tables.delta.key_places import DeltaKeyPlaces
from sordini.pipeline.tables.delta.log import Action, DeltaLog, LiveFile
from sordini.pipeline.tables.key_columns import check_changes
from sordini.pipeline.tables.key_fingerprints import Fingerprints, fingerprints
from sordini.pipeline.tables.key_index import DELETED, NOWHERE, Entries
from sordini.pipeline.tables.key_places import sequence_of
from sordini.pipeline.tables.staging import Staged
from sordini.pipeline.tables.table import Written
from sordini.pipeline.tables.upsert import Upsert


class Former(NamedTuple):
    """What the table has of the keys of a batch."""

    late: np.ndarray
    """For each change, whether it is late."""
    rows: dict[str, np.ndarray]
    """The rows that changes replace or delete: their numbers, by the paths of their files."""


class Made(NamedTuple):
    """A batch as actions, which may not be committed yet."""

    actions: list[Action]
    written: Written
    changes: Changes
    found: Former
    staged: StagedChanges
    vectors: dict[str, BitMap64]
    """Of the files of which the commit deletes rows, by their paths."""
    is_indexed: bool


class DeltaUpserts:
    """Makes the actions of upserts for one table; remembers vectors that were read, and where the rows of keys are."""

    def __init__(self, log: DeltaLog, files: pyarrow.fs.FileSystem) -> None:
        """`files` is the table's folder."""
        self._use(log, files)
        self._vectors: dict[str, BitMap64] = {}
        self._places: DeltaKeyPlaces | None = None
        self._schema = pa.schema([])

    def open(self, log: DeltaLog, files: pyarrow.fs.FileSystem) -> None:
        """Read and write the same table by other credentials."""
        log.continue_from(self.log)
        self._use(log, files)

    def _use(self, log: DeltaLog, files: pyarrow.fs.FileSystem) -> None:
        self.log = log
        self._files = files
        self._keys = KeyFiles(files)

    def actions(
        self,
        live: Mapping[str, LiveFile],
        staged: StagedChanges,
        schema: pa.Schema,
        partition_by: Sequence[str],
        how: Upsert,
    ) -> Made:
        """The `add` and `remove` actions of a batch on top of the files of a version. Raises TableError."""
        now_ms = int(time.time() * 1000)
        changes = self._keys.changes(staged, schema, how)
        check_changes(changes.keys, how)
        is_indexed = self._follow(live, schema, how)
        found = self._placed(changes) if is_indexed else self._searched(live, changes, schema, how)
        removes, vectors = self._with_deleted([(live[path], rows) for path, rows in found.rows.items()], now_ms)
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
            removes += _expired(live.values(), now_ms - how.deletions_kept_seconds * 1000, now_ms)
        actions = [*removes, *self.with_vectors(adds, vectors)]
        late_changes, deletions = int(found.late.sum()), int((changes.deletes & ~found.late).sum())
        written = Written(
            changes.keys.num_rows - late_changes - deletions,
            len(staged.rows),
            staged.bytes,
            was_there=False,
            deleted=deletions,
            late=late_changes,
        )
        return Made(actions, written, changes, found, staged, vectors, is_indexed)

    def committed(self, made: Made) -> None:
        """The actions were committed: the index takes what they have changed."""
        if not made.is_indexed:
            return
        assert self._places is not None, "it was followed"
        changes, how = made.changes, self._places.how
        added = {action["add"]["path"] for action in made.actions if "add" in action}
        removed = [action["remove"]["path"] for action in made.actions if "remove" in action]
        staged = [file.path for file in (*made.staged.rows, *made.staged.deletions)]
        taken = [path for path in staged if path in added]
        numbers = dict(zip(taken, self._places.take_commit(removed, made.vectors, taken), strict=True))
        of_file = np.array([numbers.get(path, NOWHERE) for path in staged], dtype=np.int32)
        file = of_file[changes.files] if len(changes.files) else np.zeros(0, dtype=np.int32)
        file = np.where(changes.deletes, DELETED if how.sequence else NOWHERE, file).astype(np.int32)
        position = np.where(changes.deletes, int(time.time()), changes.rows).astype(np.int64)
        keys, sequence = _keys_and_sequence(changes.keys, how)
        self._places.add(Entries(keys, file, position, sequence).taken(~made.found.late))

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
        with self._files.open_input_file(file.name) as source, parquet_file(source) as parquet:
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

    def _physical_rows(self, path: str) -> int:
        with self._files.open_input_file(path) as source:
            return int(pq.read_metadata(source).num_rows)

    def _read(self, path: str) -> bytes:
        with self._files.open_input_file(path) as file:
            return bytes(file.read())

    def _follow(self, live: Mapping[str, LiveFile], schema: pa.Schema, how: Upsert) -> bool:
        """Bring the index to these files; False if the table has too many keys."""
        if self._places is None or self._places.how != how:
            self._places = DeltaKeyPlaces(how, self._read_keys, self.vector)
        self._schema = schema
        return self._places.follow(live, _columns(schema, how), self.log.breaks)

    def _read_keys(self, file: LiveFile) -> pa.Table:
        assert self._places is not None, "it reads"
        how = self._places.how
        return _named(self._keys.of_file(file.name, file.add["partitionValues"], self._schema, how), how)

    def _placed(self, changes: Changes) -> Former:
        """The former rows of a batch, by the index."""
        assert self._places is not None, "it was followed"
        places = self._places.places(*_keys_and_sequence(changes.keys, self._places.how))
        replaced = ~places.is_late & (places.file >= 0)
        numbers, positions = places.file[replaced], places.position[replaced]
        rows = {self._places.file(number): positions[numbers == number] for number in np.unique(numbers)}
        return Former(places.is_late, rows)

    def _searched(self, live: Mapping[str, LiveFile], changes: Changes, schema: pa.Schema, how: Upsert) -> Former:
        """The former rows of a batch, by reading the keys of all files that may have them."""
        files = list(live.values())
        late, rows = key_lookup.find_known(changes.keys, self._keys.known(files, changes.keys, schema, how))
        return Former(late, {files[number].path: found for number, found in rows.items()})

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
                statistics = json.loads(add.get("stats") or "{}")
                if "numRecords" not in statistics:  # By the protocol it is there where a vector is.
                    statistics["numRecords"] = self._physical_rows(unquote(path))
                statistics["tightBounds"] = False
                made.append({"add": {**add, "stats": json.dumps(statistics), "deletionVector": descriptors[path]}})
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


def _columns(schema: pa.Schema, how: Upsert) -> pa.Schema:
    return pa.schema([schema.field(name) for name in dict.fromkeys([*how.keys, *how.sequence])])


def _named(rows: pa.Table, how: Upsert) -> pa.Table:
    """Columns of `key_columns.py` by the names of the table, each once."""
    return pa.table(dict(zip((*how.keys, *how.sequence), rows.columns, strict=False)))


def _keys_and_sequence(changes: pa.Table, how: Upsert) -> tuple[Fingerprints, pa.Table]:
    """Of the changes of a batch, as in `key_columns.py`, under the names that the index has."""
    rows = _named(changes, how)
    return fingerprints(rows, how.keys), sequence_of(rows, how.sequence)


def _expired(files: Iterable[LiveFile], before_ms: float, now_ms: int) -> list[Action]:
    """Removals of files of deletions that need not be remembered any more."""
    return [
        remove_of(file, now_ms)
        for file in files
        if file.has_deletions_only and file.add["modificationTime"] < before_ms
    ]
