"""The law of collapse, against a dictionary: of each key the newest change is left, however a batch comes in pieces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.changes.collapse import Order, newest, newest_of

COLUMNS = pa.schema(
    {
        "a": pa.int64(),
        "b": pa.string(),
        "at": pa.int64(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
)
CHANGES = st.fixed_dictionaries(
    {
        "a": st.integers(0, 3),
        "b": st.sampled_from("xyé"),
        "at": st.integers(-2, 2),
        "topic": st.sampled_from("tu"),
        "partition": st.integers(0, 2),
    }
)
# Each record has a position of its own.
BATCHES = st.lists(CHANGES, max_size=40).map(lambda rows: [{**row, "offset": at} for at, row in enumerate(rows)])


POSITION = ("topic", "partition", "offset")


def order(*sequence: str) -> tuple[str, ...]:
    return Order.of(sequence, POSITION, has_one_topic=False).columns


def expected(changes: list[dict[str, Any]], keys: tuple[str, ...], sequence: tuple[str, ...]) -> list[dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    for change in sorted(changes, key=lambda row: [row[name] for name in (*sequence, "topic", "partition", "offset")]):
        found[tuple(change[name] for name in keys)] = change
    return list(found.values())


def shown(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted(tuple(row[name] for name in COLUMNS.names) for row in rows)


@given(
    changes=BATCHES,
    keys=st.sampled_from([("a",), ("b",), ("a", "b")]),
    sequence=st.sampled_from([(), ("at",), ("at", "a")]),
)
def test_of_each_key_the_newest_change_is_left(
    changes: list[dict[str, Any]], keys: tuple[str, ...], sequence: tuple[str, ...]
) -> None:
    rows = pa.Table.from_pylist(changes, schema=COLUMNS)
    assert shown(newest(rows, keys, order(*sequence)).to_pylist()) == shown(expected(changes, keys, sequence))


@given(changes=BATCHES, size=st.integers(1, 10), rows_max=st.integers(0, 10), data=st.data())
def test_neither_the_order_of_changes_nor_the_pieces_they_come_in_matter(
    changes: list[dict[str, Any]], size: int, rows_max: int, data: st.DataObject
) -> None:
    moved = data.draw(st.permutations(changes))
    batches = pa.Table.from_pylist(moved, schema=COLUMNS).to_batches(max_chunksize=size)
    found = [row for batch in newest_of(batches, ("a",), order("at"), rows_max) for row in batch.to_pylist()]
    assert shown(found) == shown(expected(changes, ("a",), ("at",)))


def test_the_order_is_the_sequence_and_then_the_position_of_the_record() -> None:
    several = Order.of(("at",), POSITION, has_one_topic=False)
    assert several.columns == several.sequence == ("at", "topic", "partition", "offset")
    assert Order.of(("at",), POSITION, has_one_topic=True).sequence == ("at", "partition", "offset")
    assert Order.of(("offset", "at"), POSITION, has_one_topic=True).sequence == ("offset", "at", "partition")
    assert Order.of(("topic",), POSITION, has_one_topic=True).sequence == POSITION


def test_without_a_sequence_a_table_compares_nothing() -> None:
    assert Order.of((), POSITION, has_one_topic=True) == (POSITION, ())


def test_what_rows_lack_of_the_position_orders_nothing() -> None:
    assert Order.of(("at",), ("", "p", ""), has_one_topic=True) == (("at", "p"), ("at", "p"))
