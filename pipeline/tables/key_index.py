"""Where the row of each key is: an index in memory, of sorted runs of which a newer one prevails.

    runs, oldest first    1,000,000 keys | 200,000 | 30,000 | 1,000 (the last batch)
    each                  fingerprints, sorted | file | position in it | sequence

A batch adds a run; runs are merged when one is not much larger than the next, so there are as many of them as the
logarithm of the table's keys, and looking up a batch costs the batch times that. A key takes about 30 bytes, and
its sequence.

An entry is a row (of a file), a remembered deletion, or nothing any more. A removed file is marked: its entries count
as nothing, and are dropped by merges.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.tables.key_fingerprints import Fingerprints, joined

NOWHERE: Final = -1
DELETED: Final = -2
"""Instead of the number of a file: no row and nothing known; no row, and a remembered deletion."""

RATIO: Final = 4
"""A run is merged with the next one when it has fewer than so many times its entries."""


class Entries(NamedTuple):
    """Of one key each; a run if they are sorted by `keys.first`."""

    keys: Fingerprints
    file: np.ndarray
    """Numbers of files, NOWHERE or DELETED."""
    position: np.ndarray
    """In the file; of a remembered deletion its time in seconds since 1970."""
    sequence: pa.Table
    """The sequence's columns; none if the upsert has no sequence."""

    def __len__(self) -> int:
        return len(self.file)

    def taken(self, at: np.ndarray) -> Entries:
        """Those at these indexes, or where a mask is true."""
        at = np.flatnonzero(at) if at.dtype == bool else at
        keys = Fingerprints(self.keys.first[at], self.keys.second[at])
        return Entries(keys, self.file[at], self.position[at], self.sequence.take(pa.array(at)))


class KeyIndex:
    """See above."""

    def __init__(self) -> None:
        self._runs: list[Entries] = []
        self._gone = np.zeros(0, dtype=bool)

    def __len__(self) -> int:
        """Entries, also of former rows that no merge has dropped yet."""
        return sum(len(run.file) for run in self._runs)

    def add(self, entries: Entries, deletions_since: float = 0) -> None:
        """Entries of different keys, which prevail over all that is there; remembered deletions before are dropped."""
        if len(entries.file) == 0:
            return
        self._runs.append(entries.taken(np.argsort(entries.keys.first, kind="stable")))
        while len(self._runs) > 1 and len(self._runs[-2].file) < RATIO * len(self._runs[-1].file):
            newer, older = self._runs.pop(), self._runs.pop()
            merged = _merged(newer, older)
            if not self._runs:
                known = (merged.file != DELETED) | (merged.position >= deletions_since)
                merged = merged.taken(known & (self._places(merged.file) != NOWHERE))
            self._runs.append(merged)

    def lookup(self, keys: Fingerprints) -> tuple[np.ndarray, np.ndarray, pa.Table | None]:
        """File, position and sequence of each key, as in `Entries`; the sequence is null where the file is NOWHERE."""
        count = len(keys.first)
        file, position = np.full(count, NOWHERE, dtype=np.int32), np.zeros(count, dtype=np.int64)
        # Sorted keys are looked up several times faster.
        open_keys = np.argsort(keys.first)
        known: list[pa.Table] = []
        row = np.full(count, NOWHERE, dtype=np.int64)
        before = 0
        for run in reversed(self._runs):
            at = _found(run.keys, Fingerprints(keys.first[open_keys], keys.second[open_keys]))
            is_found = at != NOWHERE
            here, at = open_keys[is_found], at[is_found]
            file[here], position[here] = run.file[at], run.position[at]
            known.append(run.sequence.take(pa.array(at)))
            row[here] = before + np.arange(len(at))
            before += len(at)
            open_keys = open_keys[~is_found]
        file = self._places(file)
        row[file == NOWHERE] = NOWHERE
        rows = pa.array(row, mask=row == NOWHERE)
        return file, position, pa.concat_tables(known).take(rows) if known else None

    def remove_files(self, numbers: list[int]) -> None:
        """The rows of these files are nothing any more."""
        if numbers:
            size = max(len(self._gone), max(numbers) + 1)
            self._gone = np.pad(self._gone, (0, size - len(self._gone)))
            self._gone[numbers] = True

    def keys_of_files(self, numbers: list[int]) -> Fingerprints:
        """The keys that have, or had, rows in these files. It takes a pass over the index."""
        return joined([_taken(run.keys, np.isin(run.file, numbers)) for run in self._runs])

    def remove_rows(self, file: np.ndarray, position: np.ndarray) -> Fingerprints:
        """These rows are nothing any more; returns their keys. It takes a pass over the index."""
        removed = _codes(file, position)
        keys = []
        for run in self._runs:
            at = np.isin(_codes(run.file, run.position), removed) & (run.file >= 0)
            run.file[at] = NOWHERE
            keys.append(_taken(run.keys, at))
        return joined(keys)

    def _places(self, file: np.ndarray) -> np.ndarray:
        """The files, with NOWHERE for removed ones."""
        known = np.pad(self._gone, (0, max(0, int(file.max(initial=0)) + 1 - len(self._gone))))
        return np.where((file >= 0) & known[np.maximum(file, 0)], NOWHERE, file).astype(np.int32)


def is_greater(some: pa.Table, others: pa.Table) -> np.ndarray:
    """Whether each row of `some` is greater, column by column, than that of `others`, whose columns have any names.

    A row with a null is not. NaN is greater than all numbers, as it is in Spark and where a batch is collapsed.
    """
    greater = np.zeros(some.num_rows, dtype=bool)
    equal = np.ones(some.num_rows, dtype=bool)
    for one, other in zip(some.columns, others.columns, strict=True):
        greater |= equal & _truths(pc.greater(one, other))
        is_equal = _truths(pc.equal(one, other))
        if pa.types.is_floating(one.type):
            is_nan, other_is_nan = _truths(pc.is_nan(one)), _truths(pc.is_nan(other))
            greater |= equal & is_nan & ~other_is_nan & _truths(pc.is_valid(other))
            is_equal |= is_nan & other_is_nan
        equal &= is_equal
    return greater


def _truths(answers: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.fill_null(answers, False).to_numpy())


def _taken(keys: Fingerprints, at: np.ndarray) -> Fingerprints:
    return Fingerprints(keys.first[at], keys.second[at])


def _codes(file: np.ndarray, position: np.ndarray) -> np.ndarray:
    return (file.astype(np.int64) << 40) | position.astype(np.int64)


def _merged(newer: Entries, older: Entries) -> Entries:
    """In one run; of equal keys the newer entry alone."""
    both = Entries(
        Fingerprints(*(np.concatenate(pair) for pair in zip(newer.keys, older.keys, strict=True))),
        np.concatenate([newer.file, older.file]),
        np.concatenate([newer.position, older.position]),
        pa.concat_tables([newer.sequence, older.sequence]).combine_chunks(),
    )
    order = np.argsort(both.keys.first, kind="stable")
    first, second = both.keys.first[order], both.keys.second[order]
    is_alike = first[1:] == first[:-1]
    if np.any(is_alike & (second[1:] != second[:-1])):  # Different keys with the same first half.
        order = np.lexsort((both.keys.second, both.keys.first))
        first, second = both.keys.first[order], both.keys.second[order]
    # Sorting is stable, so the newer entry of a key comes first.
    is_older = np.zeros(len(order), dtype=bool)
    is_older[1:] = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
    return both.taken(order[~is_older])


def _found(run: Fingerprints, keys: Fingerprints) -> np.ndarray:
    """The index of each key in the run, or NOWHERE."""
    found = np.full(len(keys.first), NOWHERE, dtype=np.int64)
    at = np.searchsorted(run.first, keys.first)
    waiting = np.arange(len(keys.first))
    while len(waiting):
        waiting = waiting[at[waiting] < len(run.first)]
        waiting = waiting[run.first[at[waiting]] == keys.first[waiting]]
        is_same = run.second[at[waiting]] == keys.second[waiting]
        found[waiting[is_same]] = at[waiting[is_same]]
        # Another key with the same first half is followed by this one, if that is there.
        waiting = waiting[~is_same]
        at[waiting] += 1
    return found
