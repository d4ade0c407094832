"""Writes into a table, and is killed at one moment after the other: kill -9 of real processes, without Spark.

    python table_writer.py KIND DEED FOLDER

DEED is `append` or `compact`. For each moment there is a table of its own, with a first batch; a child does the deed
and is killed at that moment; further children look at what plain readers see then, do the deed again as a restarted job
would, and look again. Each line of standard output is JSON: the ids seen at the two looks, every `.parquet` file of
the listing at the first, and whether the child died. The last line is that of a child that lived.

Moments are the steps by which Python changes the file system (its audit events), and for Delta and Iceberg, which
commit in libraries of their own, right before and right after a commit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from sordini.pipeline.tables import Table, open_table
from sordini.pipeline.tables.delta import DeltaLake
from sordini.pipeline.tables.staging import FileSettings
from tests.support.frames import frame, plain_ids

CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"})
MOMENTS_MAX = 200
BATCH = 8
OFFSETS = {"t": {0: 8}}


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


def opened(kind: str, location: str) -> Table:
    match kind:
        case "delta":
            return MortalDelta(location, "app", (), FileSettings(), {})
        case "iceberg":
            implementation = f"{__name__}.{MortalCatalog.__name__}"
            options = {"catalog.py-catalog-impl": implementation, "catalog.uri": f"sqlite:///{location}/catalog.db"}
            return open_table(kind, location, app_id="app", **options)
        case _:
            return open_table(kind, location, app_id="app")


def prepare(kind: str, location: str) -> None:
    Path(location).mkdir(parents=True)
    opened(kind, location).append(frame(range(BATCH)), 0, OFFSETS)


def do(kind: str, location: str, deed: str) -> list[Any]:
    table = opened(kind, location)
    if deed == "append":
        return list(table.append(frame(range(BATCH, 2 * BATCH)), 1, {"t": {0: 16}}))
    return list(table.compact(1_000_000))


def listed(location: str) -> list[int]:
    """The ids in whatever ends in .parquet anywhere below, hidden or not."""
    paths = sorted(Path(location).rglob("*.parquet"))
    return sorted(number for path in paths for number in pa.parquet.read_table(path)["id"].to_pylist())


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
        return plain_ids(kind, location), listed(location)

    in_child(lambda: prepare(kind, location), result)
    lived = in_child(dies, result) is not None
    seen = in_child(look, result)
    in_child(lambda: do(kind, location, deed), result)
    after = in_child(look, result)
    return {"lived": lived, "seen": seen[0], "listed": seen[1], "after": after[0], "listed_after": after[1]}


def main(kind: str, deed: str, folder: str) -> None:
    for moment in range(MOMENTS_MAX):
        location = str(Path(folder, str(moment), "events"))
        line = after_death(kind, deed, location, moment, Path(folder, "result"))
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if line["lived"]:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
