"""The law of upserts, against a dictionary: whatever the batches, the table has the newest row of each key."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables import Table, TableError, Upsert, WrongBatch, open_table
from tests.support.frames import LocalFrame, plain_rows
from tests.support.parts import examples

COLUMNS = pa.schema(
    {"id": pa.int64(), "at": pa.int64(), "part": pa.int64(), "name": pa.string(), "_deleted": pa.bool_()}
)
UPSERTED = ("delta", "iceberg")
BY_SEQUENCE, BY_ORDER = Upsert(("id",), ("at", "part")), Upsert(("id",))
SEARCHED = Upsert(("id",), ("at", "part"), indexed_keys_max=4)
"""An index of small tables, and none of larger ones."""


class Change(NamedTuple):
    """One change; its name tells it from all others."""

    id: int
    at: int
    part: int
    name: str
    deleted: bool

    @property
    def sequence(self) -> tuple[int, int]:
        return self.at, self.part


Rows = dict[int, str]
CHANGES = st.builds(
    Change,
    st.integers(0, 7),
    st.integers(0, 5),
    st.integers(0, 1),
    st.text("abcdef", min_size=1, max_size=3),
    st.booleans(),
)
BATCHES = st.lists(st.lists(CHANGES, max_size=8, unique_by=lambda change: change.id), max_size=6)


class Done(NamedTuple):
    """By which of two processes a batch is written, and the table compacted after it."""

    process: int
    is_new_process: bool
    compacts: int | None


DONE = st.lists(
    st.builds(Done, st.integers(0, 1), st.booleans(), st.none() | st.integers(0, 1)), min_size=6, max_size=6
)


def frame_of(changes: Iterable[Change]) -> Any:
    """Two tasks, with half of the changes each."""
    rows = [
        dict(zip(COLUMNS.names, (*change[:3], None if change.deleted else change.name, change.deleted), strict=True))
        for change in changes
    ]
    halves = rows[::2], rows[1::2]
    return LocalFrame(*([pa.RecordBatch.from_pylist(half, schema=COLUMNS)] for half in halves))


def read_elsewhere(kind: str, location: str) -> pa.Table:
    """The table as deltalake or pyiceberg reads it."""
    return pa.table(DeltaTable(location).scan()) if kind == "delta" else plain_rows(kind, location)


def rows_of(kind: str, location: str) -> Rows:
    """Names by keys; a key that is there twice fails."""
    found = read_elsewhere(kind, location).select(["id", "name"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["name"] for row in found}


def expected(batches: Iterable[Iterable[Change]], *, by_sequence: bool) -> Rows:
    known: dict[int, Change] = {}
    for batch in batches:
        for change in batch:
            before = known.get(change.id)
            if not by_sequence or before is None or change.sequence >= before.sequence:
                known[change.id] = change
    return {change.id: change.name for change in known.values() if not change.deleted}


def opened(kind: str, folder: str, **options: str) -> Table:
    return open_table(kind, folder, app_id="app", **options)


def check_newest(kind: str, batches: list[list[Change]], done: list[Done], how: Upsert) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = [opened(kind, folder) for _ in range(2)]
        for number, (batch, by) in enumerate(zip(batches, done, strict=False)):
            # Two processes take turns, and follow what the other one has committed.
            if by.is_new_process:
                tables[by.process] = opened(kind, folder)
            tables[by.process].upsert(frame_of(batch), number, how, {"t": {0: number + 1}})
            if by.compacts is not None:
                tables[by.compacts].compact(1_000_000)
            assert rows_of(kind, folder) == expected(batches[: number + 1], by_sequence=bool(how.sequence))
        if batches:
            assert opened(kind, folder).last() == (len(batches) - 1, {"t": {0: len(batches)}})


def check_any_order(kind: str, batches: list[list[Change]], data: st.DataObject) -> None:
    # Of equal sequences the later is the newer: here every change has its own.
    numbered = [
        [change._replace(at=number, part=at) for at, change in enumerate(batch)] for number, batch in enumerate(batches)
    ]
    delivered = data.draw(st.permutations([*numbered, *numbered[:2]]))
    with tempfile.TemporaryDirectory() as folder:
        for number, batch in enumerate(delivered):
            opened(kind, folder).upsert(frame_of(batch), number, BY_SEQUENCE)
        if delivered:
            assert rows_of(kind, folder) == expected(numbered, by_sequence=True)


@given(batches=BATCHES, done=DONE, how=st.sampled_from([BY_SEQUENCE, BY_ORDER, SEARCHED]))
def test_a_table_has_the_newest_row_of_each_key_and_none_of_a_deleted_one(
    batches: list[list[Change]], done: list[Done], how: Upsert
) -> None:
    check_newest("delta", batches, done, how)


@settings(max_examples=examples(12), deadline=None)
@given(batches=BATCHES, done=DONE, how=st.sampled_from([BY_SEQUENCE, BY_ORDER, SEARCHED]))
def test_an_iceberg_table_has_the_newest_row_of_each_key_and_none_of_a_deleted_one(
    batches: list[list[Change]], done: list[Done], how: Upsert
) -> None:
    check_newest("iceberg", batches, done, how)


@given(batches=BATCHES, data=st.data())
def test_with_a_sequence_the_order_of_batches_and_their_repetition_do_not_matter(
    batches: list[list[Change]], data: st.DataObject
) -> None:
    check_any_order("delta", batches, data)


@settings(max_examples=examples(12), deadline=None)
@given(batches=BATCHES, data=st.data())
def test_with_a_sequence_the_order_of_batches_of_an_iceberg_table_does_not_matter(
    batches: list[list[Change]], data: st.DataObject
) -> None:
    check_any_order("iceberg", batches, data)


@pytest.fixture(params=UPSERTED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def change(key: int, at: int, name: str = "", *, part: int = 0) -> Change:
    """A deletion where there is no name."""
    return Change(key, at, part, name, not name)


def test_what_was_written_is_counted(kind: str, folder: str) -> None:
    table = opened(kind, folder)
    first = table.upsert(frame_of([change(1, 5, "a"), change(2, 5, "b"), change(3, 5)]), 0, BY_SEQUENCE)
    assert (first.rows, first.deleted, first.late, first.was_there) == (2, 1, 0, False)
    second = table.upsert(frame_of([change(1, 4, "old"), change(2, 6), change(3, 4, "old")]), 1, BY_SEQUENCE)
    assert (second.rows, second.deleted, second.late) == (0, 1, 2)
    again = opened(kind, folder).upsert(frame_of([change(1, 9, "c")]), 1, BY_SEQUENCE)
    assert (again.rows, again.was_there) == (0, True)
    with pytest.raises(WrongBatch):
        table.upsert(frame_of([]), 0, BY_SEQUENCE)
    assert rows_of(kind, folder) == {1: "a"}


def test_deletions_are_remembered_through_compaction_and_clean_up_for_as_long_as_they_have_to_be(
    kind: str, folder: str
) -> None:
    table = opened(kind, folder)
    for number in range(3):
        table.upsert(frame_of([change(number, 5)]), number, BY_SEQUENCE)
    table.compact(1_000_000)
    table.clean_up(0)
    assert table.upsert(frame_of([change(each, 4, "late") for each in range(3)]), 3, BY_SEQUENCE).late == 3
    forgetful = BY_SEQUENCE.__class__(("id",), ("at", "part"), deletions_kept_seconds=-1)
    table.upsert(frame_of([]), 4, forgetful)
    assert table.upsert(frame_of([change(0, 4, "later than that")]), 5, forgetful).late == 0
    assert rows_of(kind, folder) == {0: "later than that"}


def test_changes_that_were_not_collapsed_or_have_no_key_change_nothing(kind: str, folder: str) -> None:
    table = opened(kind, folder)
    table.upsert(frame_of([change(1, 1, "a")]), 0, BY_SEQUENCE)
    with pytest.raises(TableError, match="more than one change of a key"):
        table.upsert(frame_of([change(1, 2, "b"), change(1, 3, "c")]), 1, BY_SEQUENCE)
    without = pa.RecordBatch.from_pylist([{"id": None, "at": 1, "part": 1, "_deleted": False}], schema=COLUMNS)
    with pytest.raises(TableError, match="no value in 'id'"):
        table.upsert(LocalFrame([without]), 1, BY_SEQUENCE)  # type: ignore[arg-type]
    assert rows_of(kind, folder) == {1: "a"}
    assert table.last() == (0, {})


def test_a_table_of_upserts_refuses_other_keys_and_rows_that_are_appended(kind: str, folder: str) -> None:
    table = opened(kind, folder)
    table.upsert(frame_of([change(1, 1, "a")]), 0, BY_SEQUENCE)
    with pytest.raises(BadSetting, match="one row for each id, not for each name"):
        table.upsert(frame_of([]), 1, Upsert(("name",)))
    with pytest.raises(BadSetting, match="which appended rows would not respect"):
        table.append(frame_of([change(1, 1, "a")]), 1)


def test_an_upsert_beside_another_writer_is_compared_with_what_that_wrote(kind: str, folder: str) -> None:
    """The other one commits between the staging of this one and its commit."""
    opened(kind, folder).upsert(frame_of([change(1, 1, "a"), change(2, 1, "b")]), 0, BY_SEQUENCE)

    def meanwhile() -> None:
        other = open_table(kind, folder, app_id="other")
        other.upsert(frame_of([change(1, 5, "newer"), change(2, 2, "older")]), 0, BY_SEQUENCE)
        other.compact(1_000_000)

    opened(kind, folder).upsert(frame_of([change(1, 3, "c"), change(2, 3, "d")]), 1, BY_SEQUENCE, None, meanwhile)
    assert rows_of(kind, folder) == {1: "newer", 2: "d"}


def test_rows_move_between_partitions_and_keys_may_be_what_a_table_is_partitioned_by(kind: str, tmp_path: Path) -> None:
    for by, how in (("part", BY_SEQUENCE), ("id", BY_SEQUENCE)):
        folder = str(tmp_path / by)
        table = open_table(kind, folder, app_id="app", partition_by=(by,))
        table.upsert(frame_of([change(1, 1, "a"), change(2, 1, "b", part=1)]), 0, how)
        table.upsert(frame_of([change(1, 2, "c", part=1), change(2, 2)]), 1, how)
        table.upsert(frame_of([change(2, 1, "late"), change(1, 1, "late")]), 2, how)
        table.compact(1_000_000)
        assert rows_of(kind, folder) == {1: "c"}


def test_columns_that_come_later_are_added(kind: str, folder: str) -> None:
    table = opened(kind, folder)
    table.upsert(frame_of([change(1, 1, "a"), change(2, 1, "b")]), 0, BY_ORDER)
    more = pa.RecordBatch.from_pylist([{"id": 1, "name": "c", "city": "Bern", "_deleted": False}])
    table.upsert(LocalFrame([more]), 1, BY_ORDER)  # type: ignore[arg-type]
    found = read_elsewhere(kind, folder).select(["id", "city"]).to_pylist()
    assert sorted((row["id"], row["city"]) for row in found) == [(1, "Bern"), (2, None)]
    assert table.schema().names == ["id", "at", "part", "name", "city"]  # type: ignore[union-attr]


@pytest.mark.parametrize("hidden", ["part-*", "deletions-*"])
@pytest.mark.parametrize("kind", UPSERTED)
def test_a_batch_after_one_that_could_not_read_the_keys_finds_all_former_rows(
    kind: str, hidden: str, tmp_path: Path
) -> None:
    folder = str(tmp_path)
    one, other = opened(kind, folder), opened(kind, folder)
    one.upsert(frame_of([Change(key, 1, 0, "a", deleted=False) for key in range(4)]), 0, BY_SEQUENCE)
    known = set(tmp_path.rglob("*.parquet"))
    other.upsert(frame_of([Change(0, 5, 0, "b", deleted=True), Change(7, 5, 0, "b", deleted=False)]), 1, BY_SEQUENCE)
    away = [(path, path.rename(path.with_suffix(".away"))) for path in set(tmp_path.rglob(hidden)) - known]
    assert away
    batch = [Change(0, 3, 0, "late", deleted=False), Change(7, 6, 0, "c", deleted=False)]
    with pytest.raises(FileNotFoundError):
        one.upsert(frame_of(batch), 2, BY_SEQUENCE)
    for path, there in away:
        there.rename(path)
    assert one.upsert(frame_of(batch), 2, BY_SEQUENCE).late == 1
    assert rows_of(kind, folder) == {1: "a", 2: "a", 3: "a", 7: "c"}


@pytest.mark.parametrize("limit", [BY_SEQUENCE.indexed_keys_max, 0])
@pytest.mark.parametrize("kind", UPSERTED)
def test_nan_is_the_greatest_sequence_for_tables_as_it_is_where_a_batch_is_collapsed(
    kind: str, limit: int, tmp_path: Path
) -> None:
    how = Upsert(("id",), ("at", "part"), indexed_keys_max=limit)
    columns = COLUMNS.set(1, pa.field("at", pa.float64()))
    table = opened(kind, str(tmp_path))
    late = []
    for number, (at, part) in enumerate([(5.0, 0), (math.nan, 1), (9.0, 9), (math.nan, 0), (math.nan, 2)]):
        row = {"id": 1, "at": at, "part": part, "name": str(number), "_deleted": False}
        late.append(table.upsert(LocalFrame([pa.RecordBatch.from_pylist([row], schema=columns)]), number, how).late)
    assert late == [0, 0, 1, 1, 0]
    assert rows_of(kind, str(tmp_path)) == {1: "4"}
