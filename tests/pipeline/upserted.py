"""A table of upserts with what it must have: rows of an id at a sequence with a name, changed here and by others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sordini.pipeline.tables import Table, Upsert, Written, open_table
from tests.support.frames import LocalFrame
from tests.unit.pipeline.tables.test_upsert_laws import read_elsewhere

HOW = Upsert(("id",), ("at",))
Rows = list[tuple[int, int, str]]
Change = tuple[int, int, str | None]
"""A name of None deletes."""
Known = dict[int, Change]


def frame(changes: Iterable[Change], **more: Any) -> Any:
    """Two tasks with half of the changes each; `more` are columns of one 32-bit number."""
    rows = [{"id": key, "at": at, "name": name, "_deleted": name is None, **more} for key, at, name in changes]
    names = {"id": pa.int64(), "at": pa.int64(), "name": pa.string(), "_deleted": pa.bool_()}
    columns = pa.schema(names | dict.fromkeys(more, pa.int32()))
    return LocalFrame(*([pa.RecordBatch.from_pylist(rows[half::2], schema=columns)] for half in range(2)))


class Upserted:
    """A table, and what is known of each key by all changes of it."""

    def __init__(self, kind: str, location: Path, partition_by: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.location = str(location)
        self.partition_by = partition_by
        self.known: Known = {}
        self.batches = 0
        self.reopen()

    def reopen(self) -> None:
        """As a new process has it."""
        self.table: Table = open_table(self.kind, self.location, app_id="app", partition_by=self.partition_by)

    def upsert(self, *changes: Change, before_commit: Callable[[], object] | None = None, **more: Any) -> Written:
        number = self.batches
        offsets = {"t": {0: number + 1}}
        written = self.table.upsert(frame(changes, **more), number, HOW, offsets, before_commit)
        assert not written.was_there
        self.batches += 1
        for change in changes:
            if change[0] not in self.known or self.known[change[0]][1] <= change[1]:
                self.known[change[0]] = change
        assert open_table(self.kind, self.location, app_id="app").last() == (number, offsets)
        return written

    def forget(self) -> None:
        """Deletions are not remembered any more."""
        self.known = {key: change for key, change in self.known.items() if change[2] is not None}

    @property
    def rows(self) -> Rows:
        return sorted((key, at, name) for key, at, name in self.known.values() if name is not None)

    @property
    def read(self) -> Iterator[Rows]:
        """The rows as this table reads them, and as deltalake or pyiceberg does."""
        yield in_order(row for batch in self.table.batches(["id", "at", "name"]) for row in batch.to_pylist())
        yield in_order(read_elsewhere(self.kind, self.location).to_pylist())

    def check(self) -> None:
        for rows in self.read:
            assert rows == self.rows

    def files(self) -> dict[str, int]:
        """All of the folder with their sizes, but those of the catalog."""
        found = Path(self.location).rglob("*")
        return {str(path): path.stat().st_size for path in found if path.is_file() and "catalog.db" not in path.name}


def filled(kind: str, location: Path, partition_by: tuple[str, ...] = ()) -> Upserted:
    """A table with replaced rows, late changes, and deletions of which one has found no row: 2 and 9 are remembered."""
    made = Upserted(kind, location, partition_by)
    made.upsert(*((key, 1, f"n{key}") for key in range(8)))
    made.upsert((1, 2, "new"), (2, 2, None), (9, 5, None))
    made.upsert((3, 2, "newer"), (2, 1, "late"), (9, 4, "late"))
    return made


def in_order(rows: Iterable[dict[str, Any]]) -> Rows:
    return sorted((row["id"], row["at"], row["name"]) for row in rows)
