"""The index of a Delta table's keys: whatever is committed by whom, it is the one that a new process would make."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from sordini.pipeline.tables import Upsert, open_table
from sordini.pipeline.tables.delta.key_places import SEARCHED_FIRST_KEYS, DeltaKeyPlaces
from sordini.pipeline.tables.delta.log import LiveFile
from sordini.pipeline.tables.key_fingerprints import fingerprints
from sordini.pipeline.tables.key_index import DELETED, NOWHERE, Entries
from sordini.pipeline.tables.key_places import FileRows, KeyPlaces, sequence_of
from tests.support.frames import LocalFrame

HOW = Upsert(("id",), ("at",))
COLUMNS = pa.schema({"id": pa.int64(), "at": pa.int64()})
KEYS = range(8)


def rows_of(sequences: dict[int, int]) -> pa.Table:
    return pa.table({"id": list(sequences), "at": list(sequences.values())}, schema=COLUMNS)


@dataclass
class Files:
    """The files of a table, and what is read of them; each version is a mapping as the log has it."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    vectors: dict[str, BitMap64] = field(default_factory=dict)
    live: dict[str, LiveFile] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def add(self, sequences: dict[int, int], *, deletions: bool = False) -> str:
        path = f"{len(self.rows)}.parquet"
        self.rows[path] = rows_of(sequences)
        self.set_vector(path, BitMap64(range(len(sequences)) if deletions else ()))
        return path

    def set_vector(self, path: str, deleted: BitMap64) -> None:
        name = f"{path} {list(deleted)}"
        self.vectors[name] = deleted
        add: dict[str, Any] = {"path": path, "modificationTime": int(time.time() * 1000)}
        add["stats"] = json.dumps({"numRecords": self.rows[path].num_rows})
        if deleted:
            add["deletionVector"] = {"name": name, "cardinality": len(deleted)}
        self.live[path] = LiveFile(add)

    def places(self, how: Upsert = HOW) -> DeltaKeyPlaces:
        def read(file: LiveFile) -> pa.Table:
            self.read.append(file.path)
            return self.rows[file.path]

        def vector(file: LiveFile) -> BitMap64:
            descriptor = file.add.get("deletionVector")
            return self.vectors[descriptor["name"]] if descriptor else BitMap64()

        return DeltaKeyPlaces(how, read, vector)

    def replace(self, key: int, but: str = "") -> None:
        """Delete the rows of a key in all files but one."""
        for path, file in list(self.live.items()):
            if file.has_deletions_only or path == but:
                continue
            at = {number for number, row in enumerate(self.rows[path]["id"].to_pylist()) if row == key}
            deleted = self.vectors.get(file.add.get("deletionVector", {}).get("name", ""), BitMap64()) | BitMap64(at)
            if len(deleted) == self.rows[path].num_rows:
                del self.live[path]
            elif at:
                self.set_vector(path, deleted)


def known(places: DeltaKeyPlaces) -> dict[int, Any]:
    """Of each key its file and row, DELETED or None; and up to which sequence its changes are late."""
    keys = pa.table({"id": list(KEYS)}, schema=pa.schema({"id": pa.int64()}))
    found = {}
    of = fingerprints(keys, ["id"])
    late = [places.places(of, pa.table({"at": pa.array([at] * len(KEYS), pa.int64())})).is_late for at in range(12)]
    where = places.places(of, pa.table({"at": pa.array([0] * len(KEYS), pa.int64())}))
    for key, (file, row) in enumerate(zip(where.file.tolist(), where.position.tolist(), strict=True)):
        newest = sum(int(each[key]) for each in late)
        if file >= 0:
            found[key] = (places.file(file), row, newest)
        else:
            found[key] = None if file == NOWHERE else (DELETED, newest)
    return found


EVENTS = st.one_of(
    st.tuples(st.just("upsert"), st.sets(st.sampled_from(KEYS), min_size=1, max_size=5)),
    st.tuples(st.just("delete"), st.sets(st.sampled_from(KEYS), min_size=1, max_size=3)),
    st.tuples(st.just("strangers delete"), st.sets(st.sampled_from(KEYS), min_size=1, max_size=3)),
    st.tuples(st.just("compact"), st.just(set())),
    st.tuples(st.just("restore"), st.just(set())),
    st.tuples(st.just("follow"), st.just(set())),
)


def happen(table: Files, what: str, keys: set[int], at: int, versions: list[dict[str, LiveFile]]) -> None:
    match what:
        case "upsert":
            for key in keys:
                table.replace(key)
            table.add(dict.fromkeys(sorted(keys), at))
        case "delete":
            for key in keys:
                table.replace(key)
            table.add(dict.fromkeys(sorted(keys), at), deletions=True)
        case "strangers delete":
            for key in keys:
                table.replace(key)
        case "compact":
            left: dict[int, int] = {}
            for path, file in list(table.live.items()):
                if not file.has_deletions_only:
                    deleted = table.vectors.get(file.add.get("deletionVector", {}).get("name", ""), BitMap64())
                    rows = table.rows[path].to_pylist()
                    left |= {row["id"]: row["at"] for number, row in enumerate(rows) if number not in deleted}
                    del table.live[path]
            if left:
                table.add(left)
        case "restore":
            table.live = dict(versions[len(versions) // 2]) if versions else table.live
        case _:
            assert what == "follow"


@given(events=st.lists(EVENTS, max_size=12))
def test_an_index_that_followed_others_commits_is_the_one_that_a_new_process_makes(
    events: list[tuple[str, set[int]]],
) -> None:
    table, versions = Files(), list[dict[str, LiveFile]]()
    followed = table.places()
    for number, (what, keys) in enumerate(events):
        happen(table, what, keys, min(number, 10), versions)
        versions.append(dict(table.live))
        if what in ("follow", "restore") or number == len(events) - 1:
            assert followed.follow(table.live, COLUMNS)
            new = table.places()
            assert new.follow(table.live, COLUMNS)
            rows_alone = {key: place for key, place in known(followed).items() if place and place[0] != DELETED}
            assert rows_alone == {key: place for key, place in known(new).items() if place and place[0] != DELETED}
            if all(each != "restore" for each, _ in events):
                assert known(followed) == known(new)


def test_files_that_the_index_has_are_not_read_again() -> None:
    table = Files()
    first = table.add({0: 1, 1: 1, 2: 1})
    places = table.places()
    places.follow(table.live, COLUMNS)
    table.replace(1)
    second = table.add({1: 2})
    places.follow(table.live, COLUMNS)
    assert table.read == [first, second]
    assert (known(places)[1], known(places)[2]) == ((second, 0, 2), (first, 2, 1))


def test_an_own_commit_is_known_without_reading_its_files() -> None:
    table = Files()
    first = table.add({0: 1, 1: 1, 2: 1})
    places = table.places()
    places.follow(table.live, COLUMNS)
    table.replace(1)
    own = table.add({1: 2, 3: 2})
    numbers = places.take_commit([first], {first: BitMap64([1])}, [own])
    rows = rows_of({1: 2, 3: 2})
    entries = Entries(fingerprints(rows, ["id"]), np.repeat(numbers, 2), np.arange(2), sequence_of(rows, ["at"]))
    places.add(entries)
    places.follow(table.live, COLUMNS)
    assert table.read == [first]
    new = table.places()
    new.follow(table.live, COLUMNS)
    assert known(places) == known(new)


def test_a_restore_of_what_was_before_an_own_commit_is_seen() -> None:
    table = Files()
    first = table.add({0: 1, 1: 1})
    places = table.places()
    places.follow(table.live, COLUMNS)
    numbers = places.take_commit([first], {first: BitMap64([1])}, ["own.parquet"])
    rows = rows_of({1: 2})
    places.add(Entries(fingerprints(rows, ["id"]), numbers, np.arange(1), sequence_of(rows, ["at"])))
    assert known(places)[1] == ("own.parquet", 0, 2)
    places.follow(table.live, COLUMNS)
    assert known(places)[1] == (first, 1, 1)


def test_after_a_restore_of_a_file_or_a_row_the_index_is_built_again() -> None:
    table = Files()
    first = table.add({0: 1, 1: 1})
    whole = dict(table.live)
    places = table.places()
    places.follow(table.live, COLUMNS)
    table.replace(1)
    places.follow(table.live, COLUMNS)
    assert known(places)[1] is None
    places.follow(whole, COLUMNS)
    assert known(places)[1] == (first, 1, 1)
    places.follow({}, COLUMNS)
    assert known(places)[0] is None
    places.follow(whole, COLUMNS)
    assert known(places)[0] == (first, 0, 1)
    assert table.read == [first] * 3


def test_a_new_process_knows_the_deletions_that_files_remember() -> None:
    table = Files()
    row = table.add({1: 6})
    table.add({0: 5, 1: 2}, deletions=True)
    table.add({0: 7, 2: 1}, deletions=True)
    table.add({0: 6}, deletions=True)
    old = table.add({3: 5}, deletions=True)
    table.live[old].add["modificationTime"] = 0
    places = table.places()
    places.follow(table.live, COLUMNS)
    assert known(places) == {
        **dict.fromkeys(KEYS),
        0: (DELETED, 7),
        1: (row, 0, 6),
        2: (DELETED, 1),
    }


@pytest.mark.parametrize("is_whole_file", [False, True])
def test_a_deletion_is_remembered_again_when_others_delete_the_row_that_came_after_it(*, is_whole_file: bool) -> None:
    table = Files()
    table.add({0: 5, 1: 2}, deletions=True)
    places = table.places()
    places.follow(table.live, COLUMNS)
    row = table.add({0: 7} if is_whole_file else {0: 7, 3: 7})
    places.follow(table.live, COLUMNS)
    assert known(places)[0] == (row, 0, 7)
    table.replace(0)
    places.follow(table.live, COLUMNS)
    assert known(places)[0] == (DELETED, 5)


def test_files_of_deletions_are_read_once_where_others_replace_rows_or_compact_them() -> None:
    table = Files()
    deletions = table.add({0: 5}, deletions=True)
    table.add({0: 7, 1: 7})
    places = table.places()
    places.follow(table.live, COLUMNS)
    happen(table, "upsert", {0}, 8, [])
    places.follow(table.live, COLUMNS)
    happen(table, "compact", set(), 9, [])
    places.follow(table.live, COLUMNS)
    assert table.read.count(deletions) == 1


def test_other_columns_are_another_index() -> None:
    table = Files()
    first = table.add({0: 1})
    places = table.places()
    places.follow(table.live, COLUMNS)
    places.follow(table.live, pa.schema({"id": pa.int64(), "at": pa.int32()}))
    assert table.read == [first, first]


def test_a_table_of_too_many_keys_has_no_index_until_it_has_fewer() -> None:
    table = Files()
    first = table.add({0: 1, 1: 1})
    places = table.places(Upsert(("id",), ("at",), indexed_keys_max=2))
    assert places.follow(table.live, COLUMNS)
    second = table.add({2: 1})
    assert not places.follow(table.live, COLUMNS)
    table.replace(0)
    assert places.follow(table.live, COLUMNS)
    assert table.read == [first, first, second]
    table.add({4: 1}, deletions=True)
    assert not places.follow(table.live, COLUMNS)


def test_the_first_batch_of_a_process_into_a_large_table_is_searched() -> None:
    table = Files()
    path = table.add({0: 1})
    table.live[path].add["stats"] = json.dumps({"numRecords": SEARCHED_FIRST_KEYS + 1})
    places = table.places()
    assert not places.follow(table.live, COLUMNS)
    assert table.read == []
    assert places.follow(table.live, COLUMNS)
    assert table.read == [path]
    assert known(places)[0] == (path, 0, 1)


def test_rows_without_a_key_are_in_no_index_and_do_not_change_others() -> None:
    places = KeyPlaces(HOW)
    exact = 2**53 + 1  # No floating-point number, which is what a column with nulls becomes in numpy.
    places.add_rows([FileRows("a", pa.table({"id": [exact, None], "at": [1, 1]}, schema=COLUMNS))])
    places.add_rows([FileRows("b", pa.table({"id": [None], "at": [1]}, schema=COLUMNS))])
    asked = pa.table({"id": pa.array([exact, 0], pa.int64())})
    found = places.places(fingerprints(asked, ["id"]), pa.table({"at": pa.array([1, 1], pa.int64())}))
    assert found.file.tolist() == [0, NOWHERE]
    assert len(places) == 1


def test_an_entry_takes_28_bytes_and_its_sequence() -> None:
    places = KeyPlaces(HOW)
    places.add_rows([FileRows("a", rows_of(dict.fromkeys(range(1000), 1)))])
    (run,) = places._index._runs
    assert sum(each.nbytes for each in (*run.keys, run.file, run.position)) == 28 * 1000
    assert run.sequence.nbytes == 8 * 1000


def frame(sequences: dict[int, int], deleted: tuple[int, ...] = ()) -> Any:
    rows = [{"id": key, "at": at, "_deleted": key in deleted} for key, at in sequences.items()]
    return LocalFrame([pa.RecordBatch.from_pylist(rows, schema=COLUMNS.append(pa.field("_deleted", pa.bool_())))])


@pytest.mark.parametrize("limit", [HOW.indexed_keys_max, 1])
def test_after_a_restore_rows_are_found_where_they_are_again(tmp_path: Path, limit: int) -> None:
    how = Upsert(("id",), ("at",), indexed_keys_max=limit)
    location = str(tmp_path / "t")
    table = open_table("delta", location, app_id="app")
    table.upsert(frame(dict.fromkeys(range(4), 1)), 0, how)
    table.upsert(frame({0: 5, 1: 5, 2: 5}, (1,)), 1, how)
    DeltaTable(location).restore(0)
    last = table.last()
    assert last is not None
    assert table.upsert(frame({0: 3, 3: 3}), last[0] + 1, how).late == 0
    found = pa.table(DeltaTable(location).scan()).to_pylist()
    assert {row["id"]: row["at"] for row in found} == {0: 3, 1: 1, 2: 1, 3: 3}
    assert len(found) == 4
