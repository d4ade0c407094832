"""The index of a table's keys, kept in step with a Delta table; its live files are all it is made of.

After an own commit the index takes what that changed. What others committed in between is seen in the files of the
version: those that are gone (compaction, deletion), new ones, whose keys are read, and new deletion vectors. After a
RESTORE the index is rebuilt, as when a process starts: rows that came back, or went, hide what the table remembers of
their keys. A vector that has fewer rows than before is a sign of one, too.

**Remembered deletions** are files whose every row is deleted (`LiveFile.has_deletions_only`), as old as their `add`
action says. A row that a change added hides the deletions before it, until others delete that row: then the files are
read again, so that a change before such a deletion is late, as it is to a new process.

The index is memory of the driver: 28 bytes for each key, and its sequence. A table of more than
`Upsert.indexed_keys_max` keys has none: its batches search their keys in the files (`key_lookup.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from sordini.pipeline.tables.delta.log import LiveFile
from sordini.pipeline.tables.key_fingerprints import Fingerprints
from sordini.pipeline.tables.key_index import Entries
from sordini.pipeline.tables.key_places import FileRows, KeyPlaces, Places
from sordini.pipeline.tables.upsert import Upsert

SEARCHED_FIRST_KEYS: Final = 1_000_000
"""With more keys than these the first batch of a process is searched, and the index made with the second: it costs as
much as several searches, and many processes write one batch alone."""


class DeltaKeyPlaces:
    """See above; of the keys and sequence of one job."""

    def __init__(
        self, how: Upsert, read: Callable[[LiveFile], pa.Table], vector: Callable[[LiveFile], BitMap64]
    ) -> None:
        """`read` returns keys and sequence of all rows of a file, `vector` its deleted rows."""
        self.how = how
        self._read = read
        self._vector = vector
        self._places = KeyPlaces(how)
        self._is_first = True
        self._breaks = 0
        self._reset(None)

    def _reset(self, columns: pa.Schema | None) -> None:
        self._places.clear()
        self._columns = columns
        self._deleted: dict[str, BitMap64] = {}
        """The files that the index has, and their deleted rows."""

    def follow(self, live: Mapping[str, LiveFile], columns: pa.Schema, breaks: int = 0) -> bool:
        """Bring the index to these files; False if this batch is to be searched, see the limits above.

        `columns` are those of keys and sequence: others are another index, and so are other `breaks` of the log. Raises
        RepeatedKeys.
        """
        keys, is_first, self._is_first = _keys_of(live.values()), self._is_first, False
        if keys > self.how.indexed_keys_max:
            self._reset(None)
            return False
        if is_first and keys > SEARCHED_FIRST_KEYS:
            return False
        changed = {path: self._vector(live[path]) for path in self._deleted if path in live}
        # Those of own commits are the same objects.
        changed = {path: now for path, now in changed.items() if (was := self._deleted[path]) is not now and was != now}
        new = [path for path in live if path not in self._deleted]
        if columns != self._columns or breaks != self._breaks or self._is_restored(changed):
            self._reset(columns)
            self._breaks = breaks
            changed, new = {}, list(live)
        try:
            gone = [path for path in self._deleted if path not in live]
            removed = self._places.remove(
                gone,
                {path: np.array(deleted - self._deleted[path], dtype=np.int64) for path, deleted in changed.items()},
            )
            self._forget(gone)
            self._deleted |= changed
            self._add_files([live[path] for path in new])
            if self._places.are_forgotten(removed):
                self._remember([file for file in live.values() if file.has_deletions_only])
        except BaseException:  # All of them - what was read in part would be the whole to the next batch.
            self._reset(None)
            raise
        return True

    def places(self, keys: Fingerprints, sequence: pa.Table) -> Places:
        """Where the rows of these keys are; which changes of them, of these sequences, are late."""
        return self._places.places(keys, sequence)

    def file(self, number: int) -> str:
        """The path of the file of this number, as in `Places`."""
        return self._places.name_of(number)

    def take_commit(self, removed: Iterable[str], vectors: Mapping[str, BitMap64], files: Sequence[str]) -> np.ndarray:
        """Note a commit of this process on top of the files that were followed; the numbers of its `files`.

        `vectors` has all files of which it deletes rows; a path in `removed` that has one is still a file of the table.
        """
        numbers = [self._places.add_file(path) for path in files]
        self._deleted |= dict.fromkeys(files, BitMap64()) | dict(vectors)
        gone = [path for path in removed if path not in vectors]
        self._places.remove_files(gone)
        self._forget(gone)
        return np.array(numbers, dtype=np.int32)

    def add(self, entries: Entries) -> None:
        """Add the changes of a commit of this process."""
        self._places.add(entries)

    def _is_restored(self, changed: Mapping[str, BitMap64]) -> bool:
        """Whether rows are there again that were deleted."""
        return any(self._deleted[path] - deleted for path, deleted in changed.items())

    def _forget(self, paths: Sequence[str]) -> None:
        for path in paths:
            del self._deleted[path]

    def _add_files(self, files: Sequence[LiveFile]) -> None:
        """The rows of files that the index lacks; a deletion of a key that has a row is older than that row."""
        rows = [file for file in files if not file.has_deletions_only]
        for file in files:
            self._deleted[file.path] = self._vector(file)
        self._places.add_rows(
            FileRows(file.path, self._read(file), np.array(self._deleted[file.path], dtype=np.int64)) for file in rows
        )
        deletions = [file for file in files if file.has_deletions_only]
        for file in deletions:
            self._places.add_file(file.path)
        self._remember(deletions)

    def _remember(self, files: Iterable[LiveFile]) -> None:
        for file in files:
            seconds = int(file.add["modificationTime"]) // 1000
            if self._places.is_remembered(seconds):
                self._places.add_deletions(self._read(file), seconds)


def _keys_of(files: Iterable[LiveFile]) -> int:
    """Rows and remembered deletions, as far as the log has their numbers."""
    return sum((file.rows or 0) - (0 if file.has_deletions_only else file.deleted_rows) for file in files)
