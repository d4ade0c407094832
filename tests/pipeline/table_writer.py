"""Writes into a table, and is killed at one moment after the other: kill -9 of real processes, without Spark.

    python table_writer.py KIND DEED FOLDER [EVERY]

DEED is `append` or `compact`, or the same of a table of upserts: `upsert` or `compact-upserts`. For each moment, or each
EVERY-th of them, there is a table of its own, with a first batch; a child does the deed
and is killed at that moment; further children look at what plain readers see then, do the deed again as a restarted job
would, and look again. Each line of standard output is JSON: the ids seen at the two looks, every `.parquet` file of
the listing at the first, and whether the child died. The last line is that of a child that lived.

Moments are the steps by which Python changes the file system (its audit events), and for Delta and Iceberg, which
commit in libraries of their own, right before and right after a commit, and before each file of Iceberg's metadata.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from sordini.pipeline.tables import Table, Upsert, open_table
from sordini.pipeline.tables.delta.delta_lake import DeltaLake
from sordini.pipeline.tables.delta.files import Access
from sordini.pipeline.tables.staging import FileSettings
from tests.support.frames import LocalFrame, frame, plain_ids, plain_rows

CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"})
MOMENTS_MAX = 200
BATCH = 8
OFFSETS = {"t": {0: 8}}
HOW = Upsert(("id",), ("at",))
CHANGED = {0: None, 1: None, 4: 2, 5: 2, 8: 2, 9: 2}
"""The second batch of changes: the sequence by id, and None for deletions."""


class Death:
    """Kills this process at the n-th moment, from 0."""

    moments_left = MOMENTS_MAX

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or writes:
            self.moment()

    def moment(self) -> None:
        if self.moments_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.moments_left -= 1


DEATH = Death()


class MortalDelta(DeltaLake):
    def commit(self, *arguments: Any) -> bool:
        DEATH.moment()
        done = super().commit(*arguments)
        DEATH.moment()
        return done


class MortalCatalog(SqlCatalog):
    """Iceberg's port to where a table's newest metadata is noted."""

    def commit_table(self, *arguments: Any, **more: Any) -> Any:
        DEATH.moment()
        done = super().commit_table(*arguments, **more)
        DEATH.moment()
        return done


class MortalFiles(PyArrowFileIO):
    """Iceberg's port to its manifests, which are not opened in Python."""

    def new_output(self, location: str) -> Any:
        DEATH.moment()
        return super().new_output(location)


def opened(kind: str, location: str) -> Table:
    match kind:
        case "delta":
            return MortalDelta(location, "app", (), FileSettings(), Access())
        case "iceberg":
            implementation = f"{__name__}.{MortalCatalog.__name__}"
            options = {
                "catalog.py-catalog-impl": implementation,
                "catalog.py-io-impl": f"{__name__}.{MortalFiles.__name__}",
                "catalog.uri": f"sqlite:///{location}/catalog.db",
            }
            return open_table(kind, location, app_id="app", **options)
        case _:
            return open_table(kind, location, app_id="app")


def changes(sequences: dict[int, int | None]) -> Any:
    """Deletions are of the sequence 2."""
    rows = [{"id": key, "at": at or 2, "_deleted": at is None} for key, at in sequences.items()]
    return LocalFrame(*([pa.RecordBatch.from_pylist(rows[half::2])] for half in range(2)))


def prepare(kind: str, deed: str, location: str) -> None:
    Path(location).mkdir(parents=True)
    table = opened(kind, location)
    if "upsert" not in deed:
        table.append(frame(range(BATCH)), 0, OFFSETS)
        return
    table.upsert(changes(dict.fromkeys(range(BATCH), 1)), 0, HOW, OFFSETS)
    if deed == "compact-upserts":
        table.upsert(changes(CHANGED), 1, HOW, OFFSETS)


def do(kind: str, location: str, deed: str) -> list[Any]:
    table = opened(kind, location)
    if deed == "append":
        return list(table.append(frame(range(BATCH, 2 * BATCH)), 1, {"t": {0: 16}}))
    if deed == "upsert":
        return list(table.upsert(changes(CHANGED), 1, HOW, {"t": {0: 16}}))
    return list(table.compact(1_000_000))


def listed(location: str) -> list[int]:
    """The ids in whatever ends in .parquet anywhere below, hidden or not."""
    paths = sorted(Path(location).rglob("*.parquet"))
    return sorted(number for path in paths for number in pa.parquet.read_table(path)["id"].to_pylist())


def with_sequences(kind: str, location: str) -> list[list[int]]:
    return sorted([row["id"], row["at"]] for row in plain_rows(kind, location).to_pylist())


def unnamed(kind: str, location: str) -> list[str]:
    """Files with the data of an Iceberg table that no snapshot of it names."""
    with closing(SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db")) as catalog:
        named = catalog.load_table("default.events").inspect.all_files()["file_path"].to_pylist()
    found = {f"file://{path}" for path in Path(location).rglob("*.parquet")}
    return sorted(found - set(named)) if kind == "iceberg" else []


def late(kind: str, location: str) -> int:
    """How many of changes that are all older than those of the table are found to be late."""
    return opened(kind, location).upsert(changes(dict.fromkeys(CHANGED, 1)), 2, HOW).late


def in_child(work: Callable[[], object], result: Path) -> Any:
    """What a forked process makes of it; None if it was killed. Nothing here has started a thread before."""
    child = os.fork()
    if child == 0:
        result.write_text(json.dumps(work()), encoding="utf-8")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    if status:
        raise SystemExit("a child failed: see standard error")
    return json.loads(result.read_text(encoding="utf-8"))


def after_death(kind: str, deed: str, location: str, moment: int, result: Path) -> dict[str, Any]:
    """One table's story."""

    def dies() -> object:
        DEATH.moments_left = moment
        sys.addaudithook(DEATH)
        return do(kind, location, deed)

    def look() -> object:
        if "upsert" in deed:
            return with_sequences(kind, location), []
        return plain_ids(kind, location), listed(location)

    in_child(lambda: prepare(kind, deed, location), result)
    lived = in_child(dies, result) is not None
    seen = in_child(look, result)
    in_child(lambda: do(kind, location, deed), result)
    after = in_child(look, result)
    story = {"lived": lived, "seen": seen[0], "listed": seen[1], "after": after[0], "listed_after": after[1]}
    if "upsert" in deed:
        story["late"] = in_child(lambda: late(kind, location), result)
        story["unnamed"] = in_child(lambda: unnamed(kind, location), result)
    return story


def main(kind: str, deed: str, folder: str, every: str = "1") -> None:
    for moment in range(0, MOMENTS_MAX, int(every)):
        location = str(Path(folder, str(moment), "events"))
        line = after_death(kind, deed, location, moment, Path(folder, "result"))
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if line["lived"]:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
