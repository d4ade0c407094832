"""Columns of an Iceberg table that another program has renamed: rows with the former name are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sordini.pipeline.tables import Upsert, open_table
from sordini.pipeline.tables.table import SchemaConflict
from tests.support.frames import LocalFrame, plain_rows

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]
INSIDE = pa.struct({"first": pa.string(), "more": pa.list_(pa.struct({"n": pa.int64()}))})


def frame(*ids: int, meanwhile: Callable[[], object] | None = None, name: str = "name", first: str = "first") -> Any:
    """Rows of an id with a name and a struct; `name` and `first` are the names of these columns."""
    rows = [
        {"id": each, name: f"n{each}", "who": {first: "x", "more": [{"n": each}]}, "_deleted": False} for each in ids
    ]
    inside = pa.struct({first: pa.string(), "more": INSIDE.field("more").type})
    columns = pa.schema({"id": pa.int64(), name: pa.string(), "who": inside, "_deleted": pa.bool_()})
    return LocalFrame([pa.RecordBatch.from_pylist(rows, schema=columns)], meanwhile=meanwhile)


def without_marks(whole: Any) -> Any:
    """The rows for `append`."""
    return LocalFrame(*([batch.select(["id", "name", "who"]) for batch in task] for task in whole.tasks))


def rename(location: str, former: str, now: str) -> None:
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    with catalog.load_table("default.events").update_schema() as change:
        change.rename_column(former, now)
    catalog.close()


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


@pytest.mark.parametrize(
    ("former", "now", "full"),
    [
        ("name", "label", "label"),
        ("id", "number", "number"),
        ("who.first", "given", "who.given"),
        ("who.more.element.n", "count", "who.more.element.count"),
    ],
)
@pytest.mark.parametrize("upserts", [False, True])
def test_rows_with_a_column_s_former_name_are_refused_and_nothing_of_them_is_written(
    location: str, former: str, now: str, full: str, *, upserts: bool
) -> None:
    table = open_table("iceberg", location, app_id="app")

    def write(number: int) -> None:
        if upserts:
            table.upsert(frame(number), number, Upsert(("id",)))
        else:
            table.append(without_marks(frame(number)), number)

    write(0)
    rename(location, former, now)
    before = sorted(Path(location).rglob("*.parquet"))
    rows = plain_rows("iceberg", location).to_pylist()
    with pytest.raises(SchemaConflict, match=f"column '{former}' of the rows was renamed to '{full}' in "):
        write(1)
    assert sorted(Path(location).rglob("*.parquet")) == before
    assert plain_rows("iceberg", location).to_pylist() == rows
    assert table.last() == (0, {})
    rename(location, full, former.rpartition(".")[2])
    write(1)
    assert sorted(plain_rows("iceberg", location)["id"].to_pylist()) == [0, 1]


def test_a_column_that_is_renamed_during_a_batch_has_its_values_and_stops_the_next(location: str) -> None:
    table = open_table("iceberg", location, app_id="app")
    table.upsert(frame(0), 0, Upsert(("id",)))
    table.upsert(frame(1, meanwhile=lambda: rename(location, "name", "label")), 1, Upsert(("id",)))
    assert sorted(plain_rows("iceberg", location)["label"].to_pylist()) == ["n0", "n1"]
    with pytest.raises(SchemaConflict, match="column 'name' of the rows was renamed to 'label' in "):
        table.upsert(frame(2), 2, Upsert(("id",)))


def test_rows_with_the_new_names_are_written_beside_those_with_the_former_ones(location: str) -> None:
    table = open_table("iceberg", location, app_id="app")
    table.upsert(frame(0, 1), 0, Upsert(("id",)))
    rename(location, "name", "label")
    rename(location, "who.first", "given")
    table.upsert(frame(1, 2, name="label", first="given"), 1, Upsert(("id",)))
    rows = sorted(plain_rows("iceberg", location).to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["label"], row["who"]["given"]) for row in rows] == [
        (number, f"n{number}", "x") for number in range(3)
    ]


def test_a_column_that_was_dropped_comes_back_with_the_next_rows_that_have_it(location: str) -> None:
    table = open_table("iceberg", location, app_id="app")
    table.upsert(frame(0), 0, Upsert(("id",)))
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    with catalog.load_table("default.events").update_schema() as change:
        change.delete_column("name")
    catalog.close()
    assert "name" not in plain_rows("iceberg", location).column_names
    table.upsert(frame(1), 1, Upsert(("id",)))
    rows = plain_rows("iceberg", location).to_pylist()
    assert {row["id"]: row["name"] for row in rows} == {0: "n0", 1: "n1"}
