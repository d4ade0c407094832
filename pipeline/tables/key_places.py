"""Where the rows of a table's keys are, by the names of its files: what tables of every format know of their keys.

The index of keys (`key_index.py`) has numbers of files; here they have names. How an index follows what was committed
to a table is the format's: `delta/key_places.py`, `iceberg/key_places.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.tables.key_fingerprints import Fingerprints, fingerprints, joined
from sordini.pipeline.tables.key_index import DELETED, NOWHERE, Entries, KeyIndex, is_greater
from sordini.pipeline.tables.table import TableError
from sordini.pipeline.tables.upsert import Upsert


class RepeatedKeys(TableError):
    """Rows of keys that have another row; the text is the rest of a sentence that begins with the table's location."""


class Places(NamedTuple):
    """Of the keys of a batch, in its order, as the current table has them."""

    file: np.ndarray
    """Numbers of `KeyPlaces`, NOWHERE or DELETED."""
    position: np.ndarray
    is_late: np.ndarray


class FileRows(NamedTuple):
    """Keys and sequence of all rows of a data file, in their order."""

    name: str
    rows: pa.Table
    deleted: np.ndarray | None = None
    """Numbers of rows that are the table's no more."""


class KeyPlaces:
    """See above; of the keys and sequence of one job."""

    def __init__(self, how: Upsert, only: Fingerprints | None = None) -> None:
        """With `only` other keys are left out, as far as 64 bits tell them apart: for a table that is searched."""
        self.how = how
        self._only = only
        self.clear()

    def clear(self) -> None:
        """Know nothing, as of an empty table."""
        self._index = KeyIndex()
        self._numbers: dict[str, int] = {}
        self._names: list[str | None] = []

    def __len__(self) -> int:
        """Entries of the index, also former ones that it still has."""
        return len(self._index)

    def name_of(self, number: int) -> str:
        """The file of this number."""
        name = self._names[number]
        assert name is not None, "the index has no rows of files that are gone"
        return name

    def add_file(self, name: str) -> int:
        """Note a file of the table, and return its number."""
        self._numbers[name] = len(self._names)
        self._names.append(name)
        return len(self._names) - 1

    def remove_files(self, names: Iterable[str]) -> None:
        """The rows of these files are the table's no more."""
        gone = [self._numbers.pop(name) for name in names]
        self._index.remove_files(gone)
        for number in gone:
            self._names[number] = None

    def remove(self, files: Sequence[str], deleted: Mapping[str, np.ndarray]) -> Fingerprints:
        """Remove files, and rows by file, that others have removed; returns the keys that those had.

        It takes passes over the index, if there are any. Without a sequence the keys of files are not returned.
        """
        nothing = np.zeros(0, dtype=np.int64)
        of_rows = [np.full(len(positions), self._numbers[name]) for name, positions in deleted.items()]
        file, position = np.concatenate([nothing, *of_rows]), np.concatenate([nothing, *deleted.values()])
        keys = []
        if files and self.how.sequence:
            keys.append(self._index.keys_of_files([self._numbers[name] for name in files]))
        self.remove_files(files)
        if len(file):
            keys.append(self._index.remove_rows(file, position))
        return joined(keys)

    def are_forgotten(self, keys: Fingerprints) -> bool:
        """Whether nothing is known of one of these keys, neither a row nor a deletion."""
        return bool((self._index.lookup(keys)[0] == NOWHERE).any())

    def add_rows(self, files: Iterable[FileRows]) -> None:
        """The rows of files that the index lacks. A row without a key has none of the batches' keys.

        Raises RepeatedKeys: of two rows of a key no change would replace both.
        """
        found = [self._entries(each) for each in files]
        if not found:
            return
        entries = _joined(found)
        entries = entries.taken(np.argsort(entries.keys.first, kind="stable"))
        repeated = self._index.lookup(entries.keys)[0] >= 0
        first, second = entries.keys
        repeated[1:] |= (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        if repeated.any():
            one = int(np.flatnonzero(repeated)[0])
            names = ", ".join(self.how.keys)
            raise RepeatedKeys(
                f"has {int(repeated.sum())} rows of keys that have another row, by a writer that does not upsert, such "
                f"as row {entries.position[one]} of {self.name_of(entries.file[one])}: delete one of each two (of "
                f"GROUP BY {names} HAVING count(*) > 1)"
            )
        self._index.add(entries)

    def is_remembered(self, seconds: int) -> bool:
        """Whether deletions of this time still have to be known."""
        return bool(self.how.sequence) and seconds >= time.time() - self.how.deletions_kept_seconds

    def add_deletions(self, rows: pa.Table, seconds: int) -> None:
        """Deletions of this time that the table remembers: those newer than what the index has of their keys."""
        # Of several of one key the newest is the first. Arrow sorts NaN behind the numbers in both directions.
        count = rows.num_rows
        oldest_first = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in self.how.sequence])
        rows = rows.take(oldest_first.take(pa.array(np.arange(count)[::-1])))
        entries = self._of_rows(rows, np.full(count, DELETED, dtype=np.int32), np.full(count, seconds))
        entries = entries.taken(self._are_known(entries.keys))
        file, _, known = self._index.lookup(entries.keys)
        is_newer = is_greater(entries.sequence, known) if known is not None else np.zeros(len(entries), dtype=bool)
        self._index.add(entries.taken((file == NOWHERE) | ((file == DELETED) & is_newer)))

    def places(self, keys: Fingerprints, sequence: pa.Table) -> Places:
        """Where the rows of these keys are; which changes of them, of these sequences, are late."""
        file, position, known = self._index.lookup(keys)
        is_late = is_greater(known, sequence) if known is not None else np.zeros(len(file), dtype=bool)
        return Places(file, position, is_late)

    def add(self, entries: Entries) -> None:
        """Add the changes of a commit of this process."""
        self._index.add(entries, time.time() - self.how.deletions_kept_seconds)

    def _entries(self, file: FileRows) -> Entries:
        rows, number = file.rows, self.add_file(file.name)
        entries = self._of_rows(rows, np.full(rows.num_rows, number, dtype=np.int32), np.arange(rows.num_rows))
        is_kept = self._are_known(entries.keys)
        for name in self.how.keys:
            if rows[name].null_count:
                is_kept &= np.asarray(pc.is_valid(rows[name]).to_numpy())
        if file.deleted is not None:
            is_kept[file.deleted] = False
        return entries if is_kept.all() else entries.taken(is_kept)

    def _are_known(self, keys: Fingerprints) -> np.ndarray:
        if self._only is None:
            return np.ones(len(keys.first), dtype=bool)
        return np.isin(keys.first, self._only.first)

    def _of_rows(self, rows: pa.Table, file: np.ndarray, position: np.ndarray) -> Entries:
        return Entries(
            fingerprints(_without_nulls(rows, self.how.keys), self.how.keys),
            file.astype(np.int32),
            position.astype(np.int64),
            sequence_of(rows, self.how.sequence),
        )


def sequence_of(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The sequence's columns; if there are none, one of nulls, of which none is greater."""
    if names:
        return rows.select(list(names))
    return pa.table({"none": pa.nulls(rows.num_rows, pa.int8())})


def _without_nulls(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """With some value for null, as fingerprints are of values: the caller leaves those rows out."""
    for name in names:
        column = rows[name]
        if column.null_count:
            anything = pc.drop_null(column).combine_chunks()
            value = anything[0] if len(anything) else pa.scalar(0, pa.int64())
            column = column if len(anything) else pa.chunked_array([pa.nulls(len(column), pa.int64())])
            rows = rows.set_column(rows.schema.get_field_index(name), name, pc.fill_null(column, value))
    return rows


def _joined(found: list[Entries]) -> Entries:
    return Entries(
        joined([each.keys for each in found]),
        np.concatenate([each.file for each in found]),
        np.concatenate([each.position for each in found]),
        pa.concat_tables([each.sequence for each in found]),
    )
