"""Columns that get wider types, also within structs, lists and maps: no row changes its values, and readers see one type."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.pipeline.tables import Table, open_table
from sordini.pipeline.tables.table import SchemaConflict
from sordini.pipeline.tables.upsert import Upsert
from sordini.pipeline.tables.widening import cast, is_widened, merged_type
from tests.support.frames import KINDS, LocalFrame, plain_rows

pytestmark = [pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")]

PAIRS = [
    (pa.int32(), pa.int64(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float32(), pa.float64(), st.floats(width=32, allow_nan=False)),
    (pa.decimal128(4, 2), pa.decimal128(9, 2), st.integers(-9999, 9999).map(lambda it: decimal.Decimal(it) / 100)),
    (pa.string(), pa.string(), st.text(st.characters(codec="utf-8"), max_size=3)),
]


@st.composite
def widened(draw: st.DrawFn, depth: int = 3) -> tuple[pa.DataType, pa.DataType, Any]:
    """A type, a wider one, and a strategy of its values."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(PAIRS))
    narrow, wide, values = draw(widened(depth - 1))
    match draw(st.sampled_from(["list", "map", "struct"])):
        case "list":
            named = pa.list_(pa.field("element", narrow)), pa.list_(pa.field("element", wide))
            return *named, st.lists(st.none() | values, max_size=3)
        case "map":
            made = pa.map_(pa.string(), narrow), pa.map_(pa.string(), wide)
            return *made, st.dictionaries(st.sampled_from("abc"), st.none() | values).map(lambda it: [*it.items()])
        case _:
            more = pa.struct([("a", wide), ("more", pa.int32())])
            return pa.struct([("a", narrow)]), more, st.fixed_dictionaries({"a": st.none() | values})


@given(st.data())
@settings(max_examples=100)
def test_values_of_a_narrower_type_are_the_same_in_the_wider_one(data: st.DataObject) -> None:
    narrow, wide, values = data.draw(widened())
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=5))
    start = data.draw(st.integers(0, len(rows)))
    found = cast(pa.array(rows, narrow).slice(start), wide)
    found.validate(full=True)
    assert found.type == wide
    assert without_more(found.to_pylist()) == rows[start:]


def without_more(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_more(item) for name, item in value.items() if name != "more"}
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_more, value))
    return value


@given(st.data())
@settings(max_examples=100)
def test_a_column_of_a_wider_type_has_it_whichever_came_first(data: st.DataObject) -> None:
    narrow, wide, _ = data.draw(widened())
    assert merged_type(narrow, wide, "a") == wide
    assert merged_type(wide, narrow, "a") == wide
    is_changed = "int32" in str(narrow) or "float" in str(narrow) or "decimal128(4" in str(narrow)
    assert is_widened(pa.schema([("a", narrow)]), pa.schema([("a", wide)])) == is_changed


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (pa.string(), pa.int32()),
        (pa.int32(), pa.float64()),
        (pa.decimal128(4, 2), pa.decimal128(6, 3)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.int32())])),
        (pa.list_(pa.string()), pa.string()),
    ],
)
def test_types_that_have_not_the_same_values_are_refused(table: pa.DataType, rows: pa.DataType) -> None:
    with pytest.raises(SchemaConflict, match="column 'x"):
        merged_type(table, rows, "x")


NARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("site", pa.string()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(6, 2)),
        ("lines", pa.list_(pa.field("element", pa.struct([("count", pa.int32())])))),
        ("by", pa.map_(pa.string(), pa.float32())),
    ]
)
WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("site", pa.string()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("lines", pa.list_(pa.field("element", pa.struct([("count", pa.int64()), ("sku", pa.string())])))),
        ("by", pa.map_(pa.string(), pa.float64())),
        ("new", pa.timestamp("us")),
    ]
)


def row(number: int, **more: Any) -> dict[str, Any]:
    lines = [{"count": number, **({"sku": "s"} if "new" in more else {})}]
    price = decimal.Decimal(number) / 4
    return {
        "id": number,
        "site": f"s{number % 2}",
        "ratio": 0.5,
        "price": price,
        "lines": lines,
        "by": [("k", 1.5)],
        **more,
    }


def append(table: Table, schema: pa.Schema, number: int, *rows: dict[str, Any]) -> None:
    frame: Any = LocalFrame([pa.RecordBatch.from_pylist(list(rows), schema)])
    table.append(frame, number, {"t": {0: number}})


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("partition_by", [(), ("site",)])
def test_a_table_takes_wider_types_and_keeps_all_rows(kind: str, partition_by: tuple[str, ...], tmp_path: Path) -> None:
    location = str(tmp_path / "events")

    def opened() -> Table:
        return open_table(kind, location, app_id="app", partition_by=partition_by)

    append(opened(), NARROW, 0, row(1), row(2))
    append(opened(), NARROW, 1, row(3))
    append(opened(), WIDE, 2, row(2**34, new=None))
    append(opened(), NARROW, 3, row(5))
    table = opened()
    assert table.schema() == WIDE
    assert table.last() == (3, {"t": {0: 3}})
    rows = plain_rows(kind, location)
    assert {str(rows.schema.field(name).type) for name in ("id", "ratio", "price")} == {
        "int64", "double", "decimal128(12, 2)",
    }  # fmt: skip
    found = sorted(rows.to_pylist(), key=lambda each: each["id"])
    assert [(each["id"], float(each["price"]), each["lines"][0]["count"]) for each in found] == [
        (number, number / 4, number) for number in (1, 2, 3, 5, 2**34)
    ]
    assert [each["lines"][0]["sku"] for each in found] == [None] * 4 + ["s"]
    table.compact(2**20)
    again = sorted(plain_rows(kind, location).to_pylist(), key=lambda each: each["id"])
    assert [each["by"] for each in again] == [[("k", 1.5)]] * 5


def test_a_table_of_upserts_takes_wider_types_and_forgets_no_deletion(tmp_path: Path) -> None:
    location = str(tmp_path / "events")
    how = Upsert(("id",), ("at",), "gone")
    narrow = pa.schema([("id", pa.int32()), ("at", pa.int32()), ("n", pa.int32()), ("gone", pa.bool_())])
    wide = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("n", pa.int64()), ("gone", pa.bool_())])

    def upsert(schema: pa.Schema, number: int, *rows: tuple[int, int, int, bool]) -> None:
        table = open_table("delta", location, app_id="app")
        batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, each, strict=True)) for each in rows], schema)
        changes: Any = LocalFrame([batch])
        table.upsert(changes, number, how, {"t": {0: number}})

    upsert(narrow, 0, (1, 1, 1, False), (2, 1, 1, False), (3, 1, 1, False))
    upsert(narrow, 1, (1, 5, 0, True))
    upsert(wide, 2, (2, 2, 2**40, False), (1, 4, 9, False))
    rows = pa.table(DeltaTable(location).scan()).select(["id", "n"]).to_pylist()
    assert sorted((each["id"], each["n"]) for each in rows) == [(2, 2**40), (3, 1)]


def test_promoted_columns_of_iceberg_are_found_by_filters(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    location = str(tmp_path / "events")
    append(open_table("iceberg", location, app_id="app"), NARROW, 0, row(7))
    append(open_table("iceberg", location, app_id="app"), WIDE, 1, row(2**34, new=None))
    catalog = load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db")
    table = catalog.load_table("default.events")
    for wanted in (7, 2**34):
        assert table.scan(row_filter=f"id = {wanted}").to_arrow()["id"].to_pylist() == [wanted]
    catalog.close()


def test_a_column_without_a_zone_can_be_added_to_a_delta_table(tmp_path: Path) -> None:
    location = str(tmp_path / "events")
    append(open_table("delta", location, app_id="app"), pa.schema([("id", pa.int32())]), 0, {"id": 1})
    for number, schema in enumerate(
        [
            pa.schema([("id", pa.int32()), ("at", pa.timestamp("us"))]),
            pa.schema([("id", pa.int64()), ("in", pa.struct([("at", pa.timestamp("us"))]))]),
        ],
        1,
    ):
        append(open_table("delta", location, app_id="app"), schema, number, {"id": number + 1})
    table = DeltaTable(location)
    assert "timestampNtz" in (table.protocol().reader_features or [])
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == [1, 2, 3]
