"""Upserts of Iceberg tables: their delete files, and what others do with the table meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables import TableError, Upsert, open_table
from sordini.pipeline.tables.iceberg import compaction
from sordini.pipeline.tables.iceberg.iceberg_table import Iceberg, once
from sordini.pipeline.tables.iceberg.upsert import KEYS_PROPERTY
from sordini.pipeline.tables.staging import Outputs
from tests.support.frames import LocalFrame, plain_rows

HOW = Upsert(("id",), ("at",))
COLUMNS = pa.schema({"id": pa.int64(), "at": pa.int64(), "_deleted": pa.bool_()})


def frame(
    sequences: dict[int, int], deleted: tuple[int, ...] = (), meanwhile: Callable[[], object] | None = None
) -> Any:
    rows = [{"id": key, "at": at, "_deleted": key in deleted} for key, at in sequences.items()]
    halves = (rows[half::2] for half in range(2))
    return LocalFrame(*([pa.RecordBatch.from_pylist(half, schema=COLUMNS)] for half in halves), meanwhile=meanwhile)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


def opened(location: str, app_id: str = "app") -> Iceberg:
    table = open_table("iceberg", location, app_id=app_id)
    assert isinstance(table, Iceberg)
    return table


def rows_of(location: str) -> dict[int, int]:
    found = plain_rows("iceberg", location).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["at"] for row in found}


@contextmanager
def loaded(location: str) -> Iterator[IcebergTable]:
    """The table as pyiceberg has it."""
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    catalog.create_namespace_if_not_exists("default")
    try:
        yield catalog.load_table("default.events")
    finally:
        catalog.close()


def delete_files(location: str) -> int:
    with loaded(location) as table:
        return table.inspect.delete_files().num_rows


@dataclass(frozen=True)
class Interrupted:
    """Files in whose creation others do something, once."""

    outputs: Outputs
    others: list[Callable[[], object]]

    def create(self, path: str) -> BinaryIO:
        while self.others:
            self.others.pop()()
        return self.outputs.create(path)


def test_what_is_deleted_while_its_files_are_compacted_stays_deleted(location: str) -> None:
    table = opened(location)
    table.upsert(frame(dict.fromkeys(range(10), 1)), 0, HOW)
    table.upsert(frame(dict.fromkeys(range(3), 2), (0,)), 1, HOW)

    def upsert() -> None:
        opened(location, "other").upsert(frame({2: 3, 4: 3, 5: 3, 9: 3}, (5,)), 0, HOW)

    schema = table.schema()
    assert schema is not None
    plan = table.plan(schema, ())
    with loaded(location) as compacted:
        interrupted = replace(plan, outputs=Interrupted(plan.outputs, [upsert]))
        done = compaction.compact(once(compacted), interrupted, 1_000_000, (), once)
    assert (done.files_before, done.files_after) == (4, 1)
    expected = {1: 2, 2: 3, 3: 1, 4: 3, 6: 1, 7: 1, 8: 1, 9: 3}
    assert rows_of(location) == expected
    # The job finds the rows in the file that it has not made.
    assert table.upsert(frame({4: 4, 5: 2, 9: 2}), 2, HOW).late == 2
    assert rows_of(location) == {**expected, 4: 4}


def test_delete_files_become_one_and_go_with_what_they_were_for(location: str) -> None:
    table = opened(location)
    for number in range(4):
        table.upsert(frame(dict.fromkeys(range(20), number)), number, Upsert(("id",)))
    # The first batch has none.
    assert delete_files(location) == 3
    table.compact(1_000_000)
    assert (delete_files(location), len(table.files())) == (0, 1)
    for number in range(4, 7):
        table.upsert(frame({3: number}), number, Upsert(("id",)))
    table.compact(1)
    assert (delete_files(location), rows_of(location)[3]) == (1, 6)


def test_manifests_do_not_become_more_with_the_batches(location: str) -> None:
    table = opened(location)
    table.upsert(frame(dict.fromkeys(range(4), 0)), 0, HOW)
    with loaded(location) as changed, changed.transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "4"})
    for number in range(1, 13):
        table.upsert(frame({number % 4: number}, (3,)), number, HOW)
    with loaded(location) as found:
        snapshot = found.current_snapshot()
        assert snapshot is not None
        manifests = snapshot.manifests(found.io)
    assert {each.content for each in manifests} == {ManifestContent.DATA, ManifestContent.DELETES}
    assert len(manifests) <= 2 * 4
    assert rows_of(location) == {0: 12, 1: 9, 2: 10}
    assert opened(location).upsert(frame({3: 10, 2: 9}), 20, HOW).late == 2


def test_two_drivers_of_one_job_write_a_batch_once(location: str) -> None:
    opened(location).upsert(frame(dict.fromkeys(range(4), 1)), 0, HOW)

    def other_driver() -> None:
        opened(location).upsert(frame({0: 2, 1: 2}, (1,)), 1, HOW, {"t": {0: 2}})

    late_driver = opened(location)
    written = late_driver.upsert(frame({0: 2, 1: 2}, (1,), other_driver), 1, HOW, {"t": {0: 2}})
    assert written.was_there
    assert rows_of(location) == {0: 2, 2: 1, 3: 1}
    with loaded(location) as table:
        named = {path.removeprefix("file://") for path in table.inspect.all_files()["file_path"].to_pylist()}
    assert {str(path) for path in Path(location).rglob("*.parquet")} == named
    late_driver.upsert(frame({0: 3, 2: 3}), 2, HOW)
    assert rows_of(location) == {0: 3, 2: 3, 3: 1}


def test_after_a_rollback_rows_are_found_where_they_are_again(location: str) -> None:
    table = opened(location)
    table.upsert(frame(dict.fromkeys(range(4), 1)), 0, HOW)
    with loaded(location) as rolled_back:
        first = rolled_back.current_snapshot()
        assert first is not None
        table.upsert(frame({0: 5, 1: 5}, (1,)), 1, HOW)
        rolled_back.refresh().manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert table.last() == (0, {})
    assert table.upsert(frame({0: 3, 1: 3}), 1, HOW).late == 0
    assert rows_of(location) == {0: 3, 1: 3, 2: 1, 3: 1}


def test_a_table_of_another_format_version_is_refused_before_anything_is_written(location: str) -> None:
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}.db", warehouse=f"file://{location}")
    catalog.create_namespace("default")
    properties = {"format-version": "1", KEYS_PROPERTY: '["id"]'}
    catalog.create_table("default.events", COLUMNS.remove(2), properties=properties, location=f"file://{location}")
    options = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{location}.db"}
    table = open_table("iceberg", location, app_id="app", **options)
    with pytest.raises(TableError, match="has Iceberg's format version 1: upserts need version 2"):
        table.upsert(frame({0: 1}), 0, HOW)
    assert table.last() is None
    catalog.close()


def test_a_snapshot_of_an_upsert_says_what_it_is(location: str) -> None:
    table = opened(location)
    table.upsert(frame({0: 1, 1: 1}), 0, HOW)
    table.upsert(frame({0: 2, 1: 2, 2: 1}, (1,)), 1, HOW)
    with loaded(location) as found:
        operations = [each.summary for each in found.metadata.snapshots if each.summary]
    assert [each.operation.value for each in operations] == ["append", "overwrite"]
    counts = operations[1].additional_properties
    # Two former rows, and the row that remembers the deletion.
    assert (counts["added-position-deletes"], counts["added-records"]) == ("3", "3")
