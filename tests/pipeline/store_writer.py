"""Writes into tables of an object store as a job does, without Spark, in a process for each order.

    python store_writer.py

It says "ready"; then each line of standard input is an `Order` as JSON. It forks a child for it, says the child's id,
and when that has ended how: {"values": [...]}, {"error": the sentence that a user would read} or {"killed": true}. All is
imported once, and nothing here has started a thread before it forks. The end of the input ends it.

The deeds: `create` makes the table with its first batch; `append`, `upsert`, `compact` and `vacuum` are what a job does
with it; `abandon` is a batch that fails before its commit; `look` is what readers see then, and what `pipeline doctor` finds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.tables import Table, Upsert, open_table
from sordini.pipeline.tables.azure_storage import AccountKey
from sordini.pipeline.tables.object_storage import Keys, ObjectStorage
from sordini.pipeline.tables.store_client import open_store
from tests.support.frames import LocalFrame

HOW = Upsert(("id",), ("at",))
FIRST = dict.fromkeys(range(8), 1)
CHANGES: dict[int, int | None] = {0: None, 1: None, 4: 2, 5: 2, 8: 2, 9: 2}
"""The second batch: the sequence by id, and None for deletions."""
OFFSETS = ({"t": {0: 8}}, {"t": {0: 16}}, {"t": {0: 24}})
"""After each batch."""
TARGET_BYTES = 1_000_000
LOG = "_delta_log"


class Order(NamedTuple):
    """What is to be done one after the other, and how the writer reaches the store and its catalog."""

    deeds: list[str]
    kind: str
    endpoint: str
    location: str
    catalog: dict[str, str]
    """pyiceberg's properties; empty for Delta."""
    folder: str
    """In which the store has the table, to see what is really there; empty: that is listed."""
    keys: tuple[str, str] = ("", "")
    """Of S3; of Azure an account and its key."""
    is_in_azure: bool = False

    @property
    def storage(self) -> ObjectStorage:
        if self.is_in_azure:
            account, key = self.keys
            return ObjectStorage(self.endpoint, credentials=AccountKey(key), allow_http=True, account=account)
        return ObjectStorage(self.endpoint, "us-east-1", Keys(*self.keys), allow_http=True)

    @property
    def table(self) -> str:
        return f"lake.{self.location.rpartition('/')[2]}"


def opened(order: Order) -> Table:
    options: dict[str, Any] = {}
    if order.kind == "iceberg":
        options = {"table": order.table, **{f"catalog.{name}": value for name, value in order.catalog.items()}}
    return open_table(order.kind, order.location, app_id="app", storage=order.storage, **options)


def changes(sequences: dict[int, int | None]) -> Any:
    """Deletions are of the sequence 2."""
    rows = [{"id": key, "at": at or 2, "_deleted": at is None} for key, at in sequences.items()]
    return LocalFrame(*([pa.RecordBatch.from_pylist(rows[half::2])] for half in range(2)))


def rows(sequences: dict[int, int | None]) -> Any:
    listed = [{"id": key, "at": at or 2} for key, at in sequences.items()]
    return LocalFrame(*([pa.RecordBatch.from_pylist(listed[half::2])] for half in range(2)))


def do(order: Order, deed: str) -> Any:
    table = opened(order)
    match deed:
        case "create":
            return list(table.append(rows(FIRST), 0, OFFSETS[0]))
        case "append":
            return list(table.append(rows(dict.fromkeys(range(8, 16), 2)), 1, OFFSETS[1]))
        case "create-upserts":
            return list(table.upsert(changes(FIRST), 0, HOW, OFFSETS[0]))
        case "upsert":
            return list(table.upsert(changes(CHANGES), 1, HOW, OFFSETS[1]))
        case "upsert-late":
            # All of it is older than what the table has, or what it remembers as deleted.
            return list(table.upsert(changes(dict.fromkeys(CHANGES, 1)), 2, HOW, OFFSETS[2]))
        case "abandon":
            return abandon(table, None)
        case "abandon-upserts":
            return abandon(table, HOW)
        case "compact":
            return list(table.compact(TARGET_BYTES))
        case "vacuum":
            dropped = table.drop_versions(1)
            return [dropped, len(table.clean_up(0))]
        case "look":
            return look(order)
        case _:
            raise AssertionError(f"{deed} is no deed")


class Abandoned(Exception):
    """Instead of a commit."""


def abandon(table: Table, how: Upsert | None) -> bool:
    """Leave the files of a batch that is never committed."""

    def stop() -> None:
        raise Abandoned

    try:
        if how is None:
            table.append(rows(CHANGES), 7, OFFSETS[2], stop)
        else:
            table.upsert(changes(CHANGES), 7, how, OFFSETS[2], stop)
    except Abandoned:
        return True
    return False


def look(order: Order) -> dict[str, Any]:
    """What plain readers see, which know nothing of us; the position; and what a doctor finds, however young."""
    table = opened(order)
    position = table.last()
    health = table.health(TARGET_BYTES, 0)
    return {
        "rows": [] if position is None else sorted([row["id"], row["at"]] for row in plain_rows(order)),
        "position": position and position[0],
        "offsets": position and position[1]["t"][0],
        "orphaned": sorted(path.rpartition("/")[2] for path in health.orphaned) if health else [],
        "missing": list(health.missing) if health else [],
        "named": sorted(path.rpartition("/")[2] for path in named_files(order)) if health else [],
        "listed": sorted(path.name for path in all_files(order) if path.suffix == ".parquet" and LOG not in path.parts),
    }


def all_files(order: Order) -> list[Path]:
    """Every file below the location, of all writers, with those that no version names."""
    if order.folder:
        return list(Path(order.folder).rglob("*"))
    store = open_store(order.location, order.storage.object_store_options(order.location))
    return [Path(each["path"]) for page in store.list() for each in page]


def plain_rows(order: Order) -> list[dict[str, Any]]:
    if order.kind == "delta":
        table = DeltaTable(order.location, storage_options=order.storage.object_store_options(order.location))
        return list(pa.table(table.scan()).to_pylist())
    return list(_iceberg(order).scan().to_arrow().to_pylist())


def named_files(order: Order) -> list[str]:
    """Every file of rows or deletions that the newest version, or an older one that can be read, names."""
    if order.kind == "delta":
        table = DeltaTable(order.location, storage_options=order.storage.object_store_options(order.location))
        found: set[str] = set()
        for version in range(table.version() + 1):
            table.load_as_version(version)
            found |= set(table.file_uris())
        return sorted(found)
    return sorted(_iceberg(order).inspect.all_files()["file_path"].to_pylist())


def _iceberg(order: Order) -> Any:
    properties = {**order.storage.pyiceberg_properties(order.location), **order.catalog}
    return load_catalog("sordini", **properties).load_table(order.table)


def in_child(order: Order, result: Path) -> dict[str, Any]:
    """Fork, do it there, and say how it ended."""
    child = os.fork()
    if child == 0:
        try:
            found: dict[str, Any] = {"values": [do(order, deed) for deed in order.deeds]}
        except Exception as error:  # noqa: BLE001 - all of them: what has no message fails the test with its traceback
            found = {"error": message_of(error) if has_message(error) else traceback.format_exc()}
        result.write_text(json.dumps(found), encoding="utf-8")
        os._exit(0)
    say({"pid": child})
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return {"killed": True}
    if status:
        return {"error": f"the child ended with status {status}"}
    ended: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return ended


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    say({"ready": True})
    with TemporaryDirectory() as folder:
        for line in sys.stdin:
            say(in_child(Order(**json.loads(line)), Path(folder, "result")))


if __name__ == "__main__":
    main()
