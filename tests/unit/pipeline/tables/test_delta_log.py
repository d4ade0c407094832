"""Checkpoints of every form that the protocol allows: a table's files are the same by each of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from sordini.pipeline.tables import Upsert, open_table
from sordini.pipeline.tables.delta.log import DeltaLog, LiveFile, LocalPuts
from tests.support.frames import LocalFrame

HOW = Upsert(("id",), ("at",))
COLUMNS = pa.schema({"id": pa.int64(), "at": pa.int64(), "_deleted": pa.bool_()})
VERSION = 2
"""The last one of the table."""


def changes(*rows: tuple[int, int, bool]) -> Any:
    batch = [dict(zip(COLUMNS.names, row, strict=True)) for row in rows]
    return LocalFrame([pa.RecordBatch.from_pylist(batch, schema=COLUMNS)])


@pytest.fixture
def location(tmp_path: Path) -> str:
    """A table that has a file with a vector, its former one among the removals, and a remembered deletion."""
    location = str(tmp_path / "t")
    table = open_table("delta", location, app_id="app")
    table.upsert(changes(*((key, 5, False) for key in range(6))), 0, HOW)
    table.upsert(changes((0, 6, False)), 1, HOW)
    table.upsert(changes((1, 10, True)), 2, HOW)
    return location


def in_parts(log: Path, parts: list[list[dict[str, Any]]], schema: pa.Schema) -> None:
    for number, part in enumerate(parts, 1):
        path = log / f"{VERSION:020}.checkpoint.{number:010}.{len(parts):010}.parquet"
        pq.write_table(pa.Table.from_pylist(part, schema=schema), path)


def apart(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What a table has, and its removals: among these is a file that it has, with its former vector."""
    parts = [row for row in rows if not row["remove"]], [row for row in rows if row["remove"]]
    assert {row["add"]["path"] for row in rows if row["add"]} & {row["remove"]["path"] for row in parts[1]}
    return list(parts)


def with_removals_last(log: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    in_parts(log, apart(rows), schema)


def with_removals_first(log: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """A folder's listing has any order."""
    in_parts(log, apart(rows)[::-1], schema)


def sidecar(log: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> dict[str, Any]:
    name = f"{uuid4()}.parquet"
    (log / "_sidecars").mkdir()
    files = [row for row in rows if row["add"] or row["remove"]]
    pq.write_table(pa.Table.from_pylist(files, schema=schema).select(["add", "remove"]), log / "_sidecars" / name)
    return {"path": name, "sizeInBytes": 1, "modificationTime": 1}


def with_sidecar(log: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    ours = sidecar(log, rows, schema)
    rest = pa.Table.from_pylist([row for row in rows if not (row["add"] or row["remove"])], schema=schema)
    rest = rest.select(["metaData", "protocol", "txn"]).append_column(
        "sidecar", pa.array([ours, *[None] * (rest.num_rows - 1)])
    )
    pq.write_table(rest, log / f"{VERSION:020}.checkpoint.{uuid4()}.parquet")


def in_json_with_sidecar(log: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    lines = [{"checkpointMetadata": {"version": VERSION}}, {"sidecar": sidecar(log, rows, schema)}]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (log / f"{VERSION:020}.checkpoint.{uuid4()}.json").write_text(text)


def without_statistics(log: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    less = [{**row, "add": {**row["add"], "stats": None} if row["add"] else None} for row in rows]
    pq.write_table(pa.Table.from_pylist(less, schema=schema), log / f"{VERSION:020}.checkpoint.parquet")


def log_of(location: str) -> DeltaLog:
    files = pyarrow.fs.SubTreeFileSystem(location, pyarrow.fs.LocalFileSystem())
    return DeltaLog(files, LocalPuts(Path(location)))


def shown(files: dict[str, LiveFile]) -> dict[str, Any]:
    return {path: (file.add.get("deletionVector"), file.has_deletions_only) for path, file in files.items()}


@pytest.mark.parametrize(
    "form", [with_removals_last, with_removals_first, with_sidecar, in_json_with_sidecar, without_statistics]
)
def test_files_and_vectors_are_the_same_whatever_form_a_checkpoint_has(
    form: Callable[[Path, list[dict[str, Any]], pa.Schema], None], location: str
) -> None:
    expected = shown(log_of(location).snapshot(VERSION).files)
    log = Path(location, "_delta_log")
    DeltaTable(location).create_checkpoint()
    (whole,) = log.glob("*.checkpoint.parquet")
    rows = pq.read_table(whole)
    whole.unlink()
    for commit in log.glob("*.json"):
        commit.unlink()
    form(log, rows.to_pylist(maps_as_pydicts=None), rows.schema)
    found = shown(log_of(location).snapshot(VERSION).files)
    assert found == expected
    assert sum(vector is not None for vector, _ in found.values()) == 2
    assert sum(is_only for _, is_only in found.values()) == 1


@pytest.mark.parametrize("properties", [{"delta.checkpoint.writeStatsAsStruct": "true"}, {}])
def test_deletions_and_vectors_outlive_a_checkpoint_without_statistics_in_json(
    location: str, properties: dict[str, str]
) -> None:
    DeltaTable(location).alter.set_table_properties({"delta.checkpoint.writeStatsAsJson": "false", **properties})
    DeltaTable(location).create_checkpoint()
    table = open_table("delta", location, app_id="app")
    assert table.upsert(changes((1, 7, False)), 3, HOW).late == 1
    table.upsert(changes((2, 8, False)), 4, HOW)
    rows = pa.table(DeltaTable(location).scan()).to_pylist()
    assert {row["id"]: row["at"] for row in rows} == {0: 6, 2: 8, 3: 5, 4: 5, 5: 5}
    assert len(rows) == 5
    (masked,) = (file for file in log_of(location).snapshot(5).files.values() if file.deleted_rows > 1)
    assert (masked.rows, masked.deleted_rows) == (6, 3)


def test_a_log_whose_reading_was_interrupted_is_read_from_the_beginning(location: str) -> None:
    log = log_of(location)
    expected = set(log.snapshot(VERSION).files)
    commit = Path(location, "_delta_log", f"{1:020}.json")
    text = commit.read_text()
    commit.write_text('{"add": ')
    with pytest.raises(json.JSONDecodeError):
        log.snapshot(1)
    commit.write_text(text)
    assert set(log.snapshot(VERSION).files) == expected
