"""Upserts of Iceberg tables by position deletes: no row is rewritten, and a batch costs what it has, not the table.

A batch is one snapshot. It adds files with its rows and, with a sequence, a file that remembers its deletions; and
position delete files with the former rows of its keys, its late rows, and all rows of the file of deletions. The
former rows are found by an index of the keys (`key_places.py`), not by reading the table. Of a table that has too many
keys for one, the keys of the files that may have those of the batch are read instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties, Transaction

from sordini.pipeline.tables.batch_upsert import StagedChanges
from sordini.pipeline.tables.iceberg.files import KEPT_PROPERTY, deletions_file, rows_file
from sordini.pipeline.tables.iceberg.key_places import BatchKeys, IcebergKeyPlaces
from sordini.pipeline.tables.iceberg.positions import PositionsOutput
from sordini.pipeline.tables.iceberg.row_delta import FileChanges, RowDelta
from sordini.pipeline.tables.key_columns import check_changes, plain_columns
from sordini.pipeline.tables.key_fingerprints import Fingerprints, fingerprints
from sordini.pipeline.tables.key_index import DELETED, NOWHERE, Entries
from sordini.pipeline.tables.key_places import Places, sequence_of
from sordini.pipeline.tables.staging import Staged
from sordini.pipeline.tables.table import TableError, Written
from sordini.pipeline.tables.upsert import Upsert

KEYS_PROPERTY: Final = "sordini.keys"
"""Of the table: the names of its keys, as a JSON list."""

FORMAT_VERSION: Final = 2
"""The first has no delete files; the third has others, and pyiceberg does not write it."""

EQUALITY_DELETES: Final = "total-equality-deletes"
"""In a snapshot's summary: how many keys the table's delete files name that delete by key, not by row."""


class Batch(NamedTuple):
    """The changes of a batch; arrays and tables have an element for each."""

    files: list[Staged]
    """Files of rows, then files of deletions."""
    rows: pa.Table
    """The columns of the keys."""
    keys: Fingerprints
    sequence: pa.Table
    file: np.ndarray
    """The number in `files`."""
    position: np.ndarray
    deletes: np.ndarray


class Added(NamedTuple):
    """What a snapshot, which may not be committed yet, adds."""

    snapshot_id: int
    batch: Batch
    places: Places
    files: list[DataFile | None]
    """For each file of the batch; None where nothing of it is needed."""
    deletes: list[DataFile]
    unneeded: list[str]
    """Paths of the files of the batch that are none of the table's."""

    def written(self, staged: StagedChanges) -> Written:
        is_late, deletes = self.places.is_late, self.batch.deletes
        late, deleted = int(is_late.sum()), int((deletes & ~is_late).sum())
        rows = len(deletes) - late - deleted
        return Written(rows, len(staged.rows), staged.bytes, was_there=False, deleted=deleted, late=late)


class IcebergUpserts:
    """The upserts of one job into one table; remembers where the rows of keys are."""

    def __init__(self, how: Upsert) -> None:
        self.how = how
        self._places = IcebergKeyPlaces(how)
        self._is_indexed = True
        self._columns = pa.schema([])

    def begin(self, table: IcebergTable | None, schema: pa.Schema) -> None:
        """Bring the index to the table as it was read; None if it is to be created. Raises TableError."""
        self._columns = pa.schema([schema.field(name) for name in dict.fromkeys([*self.how.keys, *self.how.sequence])])
        self._is_indexed = self._places.follow(table, self._columns)

    def add(
        self, change: Transaction, output: PositionsOutput, staged: StagedChanges, properties: dict[str, str]
    ) -> Added:
        """Add the batch to a transaction, as one snapshot with these properties. Raises TableError."""
        io = change._table.io  # noqa: SLF001 - pyiceberg's own callers take it from there, too
        batch = self._read(io, output, staged)
        known = self._places if self._is_indexed else self._searched(change._table, batch)  # noqa: SLF001 - as above
        places = known.places(batch.keys, batch.sequence)
        change.set_properties(self._properties(change))
        uris = [f"{output.below}/{each.path}" for each in batch.files]
        files: list[DataFile | None] = []
        for number, uri in enumerate(uris):
            mine = batch.file == number
            is_needed = bool((mine & ~places.is_late).any())
            if batch.deletes[mine].any():
                is_needed = is_needed and bool(self.how.sequence)
                files.append(deletions_file(change, uri, batch.files[number]) if is_needed else None)
            else:
                files.append(rows_file(change, uri) if is_needed else None)
        deletes = output.write(_deleted(batch, known, places, files))
        delta = RowDelta(change, FileChanges([*(each for each in files if each), *deletes]), properties)
        delta.commit()
        unneeded = [uri for uri, file in zip(uris, files, strict=True) if file is None]
        return Added(delta.snapshot_id, batch, places, files, deletes, unneeded)

    def committed(self, added: Added) -> None:
        """The transaction was committed: the index takes what it has changed."""
        if not self._is_indexed:
            return
        batch = added.batch
        made = [each for each in added.files if each]
        taken = self._places.take_commit(added.snapshot_id, made, added.deletes)
        numbers = {each.file_path: number for each, number in zip(made, taken, strict=True)}
        of_file = np.array([numbers[each.file_path] if each else NOWHERE for each in added.files], dtype=np.int32)
        file = of_file[batch.file] if len(batch.file) else np.zeros(0, dtype=np.int32)
        file = np.where(batch.deletes, DELETED if self.how.sequence else NOWHERE, file).astype(np.int32)
        position = np.where(batch.deletes, int(time.time()), batch.position)
        self._places.add(Entries(batch.keys, file, position, batch.sequence).taken(~added.places.is_late))

    def _searched(self, table: IcebergTable, batch: Batch) -> IcebergKeyPlaces:
        """What the table knows of the keys of a batch, by reading the files that may have them."""
        found = IcebergKeyPlaces(self.how, BatchKeys(batch.keys, batch.rows))
        found.follow(table, self._columns)
        return found

    def _read(self, io: FileIO, output: PositionsOutput, staged: StagedChanges) -> Batch:
        """The keys and sequences of the staged files."""
        files = [*staged.rows, *staged.deletions]
        columns = self._columns
        pieces = [columns.empty_table()]
        for each in files:
            with io.new_input(f"{output.below}/{each.path}").open() as source:
                pieces.append(pq.read_table(source, columns=columns.names).select(columns.names).cast(columns))
        rows = pa.concat_tables(pieces)
        check_changes(plain_columns(rows, self.how), self.how)
        counts = [piece.num_rows for piece in pieces[1:]]
        file = np.repeat(np.arange(len(files)), counts)
        position = np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(count) for count in counts)])
        keys, sequence = fingerprints(rows, self.how.keys), sequence_of(rows, self.how.sequence)
        return Batch(files, rows.select(list(self.how.keys)), keys, sequence, file, position, file >= len(staged.rows))

    def _properties(self, change: Transaction) -> dict[str, str]:
        metadata = change.table_metadata
        properties = {
            KEYS_PROPERTY: json.dumps(self.how.keys),
            KEPT_PROPERTY: str(self.how.deletions_kept_seconds),
        }
        if metadata.name_mapping() is None:
            # By this the columns of files are found: they have no numbers of Iceberg's fields.
            properties[TableProperties.DEFAULT_NAME_MAPPING] = metadata.schema().name_mapping.model_dump_json()
        return {name: text for name, text in properties.items() if metadata.properties.get(name) != text}


def check_format(table: IcebergTable, *, upserts: bool) -> None:
    """Check that the table has manifests, and for upserts delete files, as they are written here. Raises TableError."""
    found = f"{table.location()} has Iceberg's format version {table.metadata.format_version}"
    if upserts and table.metadata.format_version != FORMAT_VERSION:
        raise TableError(f"{found}: upserts need version {FORMAT_VERSION}")
    if table.metadata.format_version > FORMAT_VERSION:
        raise TableError(f"{found}, and pyiceberg writes up to version {FORMAT_VERSION}: use another table")
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    if upserts and int(summary.get(EQUALITY_DELETES, "0")):
        raise TableError(
            f"{table.location()} has equality deletes, which pyiceberg does not read: rewrite its data files and "
            "remove the deletes, by the engine that writes them"
        )


def stored_keys(table: IcebergTable | None) -> tuple[str, ...] | None:
    """The keys of a table of upserts; None for others."""
    text = table.properties.get(KEYS_PROPERTY) if table else None
    return tuple(json.loads(text)) if text else None


def _deleted(
    batch: Batch, known: IcebergKeyPlaces, places: Places, files: Sequence[DataFile | None]
) -> list[tuple[DataFile, np.ndarray]]:
    """Rows that the snapshot deletes: former rows of its keys, and of its own files late rows and deletions."""
    replaced = ~places.is_late & (places.file >= 0)
    numbers, positions = places.file[replaced], places.position[replaced]
    deleted = [(known.file(number), positions[numbers == number]) for number in np.unique(numbers)]
    hidden = places.is_late | batch.deletes
    for number, file in enumerate(files):
        if file is not None:
            deleted.append((file, batch.position[hidden & (batch.file == number)]))
    return deleted
