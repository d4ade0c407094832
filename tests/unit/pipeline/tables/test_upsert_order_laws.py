"""The law of changes with equal sequences: a table is what its changes are, however they came.

Whichever batches changes are delivered in, how often and in which order: of each key the change is left that is last
by sequence, partition and offset. So of two changes of a partition with one sequence the later stays.
"""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.pipeline.changes.collapse import Order, newest
from sordini.pipeline.tables import Upsert, open_table
from tests.support.frames import LocalFrame
from tests.support.parts import examples
from tests.unit.pipeline.tables.test_upsert_laws import read_elsewhere

COLUMNS = pa.schema(
    {
        "id": pa.int64(),
        "at": pa.int64(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "name": pa.string(),
        "_deleted": pa.bool_(),
    }
)
ORDER = Order.of(("at",), ("topic", "partition", "offset"), has_one_topic=True)
HOW = Upsert(("id",), ORDER.sequence)
Record = dict[str, Any]


def in_a_log(changes: list[Record]) -> list[Record]:
    """Changes with their offsets, and a name that tells each from all others."""
    ends: dict[int, int] = {}
    for number, change in enumerate(changes):
        change["offset"] = ends[change["partition"]] = ends.get(change["partition"], -1) + 1
        change["name"] = None if change["_deleted"] else f"n{number}"
    return changes


# Few keys and sequences: most changes of a key share their sequence with another.
LOGS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 2),
            "at": st.integers(0, 1),
            "partition": st.integers(0, 1),
            "_deleted": st.sampled_from([False, False, True]),
        }
    ),
    min_size=1,
    max_size=16,
).map(in_a_log)


def last_of(log: list[Record]) -> dict[int, str]:
    found: dict[int, Record] = {}
    for change in sorted(log, key=lambda each: (each["at"], each["partition"], each["offset"])):
        found[change["id"]] = change
    return {key: change["name"] for key, change in found.items() if not change["_deleted"]}


def write(kind: str, folder: str, number: int, batch: list[Record]) -> int:
    """A batch as a job writes it; how many of its changes are late."""
    rows = newest(pa.Table.from_pylist(batch, schema=COLUMNS), HOW.keys, [*HOW.sequence]).to_batches()
    frame: Any = LocalFrame(rows or [pa.RecordBatch.from_pylist([], schema=COLUMNS)])
    return open_table(kind, folder, app_id="app").upsert(frame, number, HOW).late


def rows_of(kind: str, folder: str) -> dict[int, str]:
    return {row["id"]: row["name"] for row in read_elsewhere(kind, folder).select(["id", "name"]).to_pylist()}


def check(kind: str, log: list[Record], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(log), max_size=8))
    delivered = data.draw(st.permutations([*log, *again]))
    size = data.draw(st.integers(1, 6))
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, len(delivered), size)):
            write(kind, folder, number, delivered[start : start + size])
        assert rows_of(kind, folder) == last_of(log)


@settings(max_examples=examples(25), deadline=None)
@given(log=LOGS, data=st.data())
def test_a_delta_table_of_equal_sequences_is_what_its_changes_are_however_they_came(
    log: list[Record], data: st.DataObject
) -> None:
    check("delta", log, data)


@settings(max_examples=examples(12), deadline=None)
@given(log=LOGS, data=st.data())
def test_an_iceberg_table_of_equal_sequences_is_what_its_changes_are_however_they_came(
    log: list[Record], data: st.DataObject
) -> None:
    check("iceberg", log, data)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_an_older_change_that_is_repeated_alone_does_not_take_a_row_back(kind: str, tmp_path: Any) -> None:
    """As a backfill does whose range ends between two changes of one millisecond."""
    log = in_a_log([{"id": 1, "at": 5, "partition": 0, "_deleted": False} for _ in range(2)])
    folder = str(tmp_path / "t")
    assert write(kind, folder, 0, log) == 0
    assert write(kind, folder, 1, log[:1]) == 1
    assert rows_of(kind, folder) == {1: "n1"}


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_written_by_the_sequence_alone_is_continued(kind: str, tmp_path: Any) -> None:
    """Its remembered deletions have no position: a change with their sequence is the newer."""
    folder = str(tmp_path / "t")
    before: Any = LocalFrame(
        [
            pa.RecordBatch.from_pylist(
                [
                    {"id": 1, "at": 5, "partition": 0, "offset": 0, "name": "a", "_deleted": False},
                    {"id": 2, "at": 5, "partition": 0, "offset": 1, "name": None, "_deleted": True},
                ],
                schema=COLUMNS,
            )
        ]
    )
    open_table(kind, folder, app_id="app").upsert(before, 0, Upsert(("id",), ("at",)))
    log = in_a_log([{"id": key, "at": at, "partition": 0, "_deleted": False} for key, at in ((1, 4), (2, 4), (2, 5))])
    assert write(kind, folder, 1, log[:2]) == 2
    assert write(kind, folder, 2, log[2:]) == 0
    assert rows_of(kind, folder) == {1: "a", 2: "n2"}
