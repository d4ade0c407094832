"""Upserts into tables without Spark: `python -m bench.upserts`, `--kind KIND --rows N --changes N --rounds N --cpu`.

A table of N rows and one of ten times as many take batches of changes of random keys, a tenth of them deletions. Beside
it the library's own way with rows, which has no deletions, into the same columns: pyiceberg's `upsert`, or deltalake's
`merge`. The two tables take turns; of each the median of the rounds is shown; of ours also what a new process needs
until its first batch is in, which is what the index of keys costs.

`--cpu` measures the processor's seconds of all threads instead of the wall's: what a batch costs, also on a machine
that has much else to do.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from sordini.pipeline.tables import Table, Upsert, open_table
from tests.support.frames import LocalFrame

HOW = Upsert(("id",), ("at",))
TASKS = 4
TIMES_LARGER = 10
THEIR_CHANGES = 1_000
"""More take minutes."""
LIBRARIES = {"delta": "deltalake's merge", "iceberg": "pyiceberg's upsert"}
COLUMNS = pa.schema({"id": pa.int64(), "at": pa.int64(), "name": pa.string(), "amount": pa.float64()})


def rows(ids: np.ndarray, at: int) -> pa.RecordBatch:
    names = pa.array([f"customer of the number {number}" for number in ids], pa.string())
    return pa.RecordBatch.from_arrays(
        [pa.array(ids), pa.array(np.full(len(ids), at)), names, pa.array(ids / 7)], schema=COLUMNS
    )


def frame(ids: np.ndarray, at: int, deleted: np.ndarray) -> Any:
    whole = rows(ids, at).append_column("_deleted", pa.array(deleted))
    size = -(-len(ids) // TASKS)
    return LocalFrame(*([whole.slice(start, size)] for start in range(0, len(ids), size)))


class Clock:
    """What is measured."""

    now: Callable[[], float] = staticmethod(time.monotonic)


def timed(work: Callable[[], object]) -> float:
    began = Clock.now()
    work()
    return Clock.now() - began


class Ours:
    """A table of so many rows, ten million at most in one batch."""

    def __init__(self, kind: str, folder: Path, count: int) -> None:
        self._kind = kind
        self._random = np.random.default_rng(1)
        self._location = str(folder / "events")
        self._count = count
        self._batch = 0
        self._table = self._opened()
        for start in range(0, count, 1_000_000):
            ids = np.arange(start, min(start + 1_000_000, count))
            self._take(self._table, frame(ids, 0, np.zeros(len(ids), dtype=bool)))

    def _opened(self) -> Table:
        return open_table(self._kind, self._location, app_id="bench")

    def _take(self, table: Table, changes: Any) -> None:
        table.upsert(changes, self._batch, HOW, {"t": {0: self._batch}})
        self._batch += 1

    def seconds(self, changes: int, *, is_new_process: bool = False) -> float:
        ids = self._random.choice(self._count, changes, replace=False)
        made = frame(ids, self._batch, self._random.random(changes) < 0.1)
        table = self._opened() if is_new_process else self._table
        return timed(lambda: self._take(table, made))

    def compact(self) -> float:
        return timed(lambda: self._table.compact(128 * 1024 * 1024))

    def read(self) -> float:
        """By pyiceberg or deltalake: what readers pay for deleted rows that are in the files."""
        if self._kind == "delta":
            return timed(lambda: pa.table(DeltaTable(self._location).scan()))
        catalog = SqlCatalog("sordini", uri=f"sqlite:///{self._location}/catalog.db")
        return timed(lambda: catalog.load_table("default.events").scan().to_arrow())


def by_deltalake(folder: Path, count: int, changes: int, rounds: int) -> float:
    """Seconds of deltalake's merge."""
    location = str(folder / "theirs")
    random = np.random.default_rng(1)
    for start in range(0, count, 1_000_000):
        some = rows(np.arange(start, min(start + 1_000_000, count)), 0)
        write_deltalake(location, pa.Table.from_batches([some]), mode="append")
    seconds = []
    for number in range(rounds):
        new = pa.Table.from_batches([rows(random.choice(count, changes, replace=False), number + 1)])
        merge = DeltaTable(location).merge(new, "t.id = s.id AND s.at >= t.at", "s", "t")
        seconds.append(timed(merge.when_matched_update_all().when_not_matched_insert_all().execute))
    return median(seconds)


def by_pyiceberg(folder: Path, count: int, changes: int, rounds: int) -> float:
    """Seconds of pyiceberg's upsert."""
    catalog = SqlCatalog("theirs", uri=f"sqlite:///{folder}/theirs.db", warehouse=f"file://{folder}/theirs")
    catalog.create_namespace("default")
    table = catalog.create_table("default.events", COLUMNS)
    random = np.random.default_rng(1)
    for start in range(0, count, 1_000_000):
        table.append(pa.Table.from_batches([rows(np.arange(start, min(start + 1_000_000, count)), 0)]))
    seconds = []
    for number in range(rounds):
        new = pa.Table.from_batches([rows(random.choice(count, changes, replace=False), number + 1)])
        seconds.append(timed(lambda new=new: table.upsert(new, join_cols=["id"])))  # type: ignore[misc]
    return median(seconds)


def measured(kind: str, counts: Sequence[int], changes: int, rounds: int) -> Iterator[str]:
    """A row for each size of a table."""
    with tempfile.TemporaryDirectory() as folder:
        tables = {count: Ours(kind, Path(folder) / str(count), count) for count in counts}
        for ours in tables.values():
            ours.seconds(changes)
        many: dict[int, list[float]] = {count: [] for count in counts}
        few: dict[int, list[float]] = {count: [] for count in counts}
        for _ in range(rounds):
            for count, ours in tables.items():
                many[count].append(ours.seconds(changes))
                few[count].append(ours.seconds(THEIR_CHANGES))
        for count, ours in tables.items():
            first = ours.seconds(THEIR_CHANGES, is_new_process=True)
            before, compacting, after = ours.read(), ours.compact(), ours.read()
            theirs = by_deltalake if kind == "delta" else by_pyiceberg
            library = theirs(Path(folder) / str(count), count, THEIR_CHANGES, 1)
            figures = (median(many[count]), median(few[count]), library, first, before, compacting, after)
            yield f"| {count:,} | " + " | ".join(f"{seconds:.2f}" for seconds in figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("delta", "iceberg"), default="iceberg")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="seconds of the processor instead of the wall's")
    options = parser.parse_args()
    if options.cpu:
        Clock.now = time.process_time
    few = f"{THEIR_CHANGES:,}"
    heads = [f"{options.changes:,} changes, s", f"{few} changes, s", f"{few} by {LIBRARIES[options.kind]}, s"]
    heads += [f"{few} in a new process, s", "read by the library, s", "compaction, s", "read after it, s"]
    print(f"| rows | {' | '.join(heads)} |")
    print("| --: |" + " --: |" * len(heads), flush=True)
    counts = (options.rows, TIMES_LARGER * options.rows)
    for line in measured(options.kind, counts, options.changes, options.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
