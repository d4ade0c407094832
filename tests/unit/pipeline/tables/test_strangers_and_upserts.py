"""Tables of upserts that other engines write, too: the next batches are right, or stop with one sentence.

deltalake and pyiceberg are the strangers; those that read alone are in tests/pipeline/test_iceberg_readers.py, and
Spark with the connectors of both formats in tests/pipeline/test_tables_beside_spark.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables import Table, TableError, Upsert, open_table
from tests.support.frames import KINDS, LocalFrame
from tests.unit.pipeline.tables.test_upsert_laws import Change, frame_of, read_elsewhere

HOW = Upsert(("id",), ("at", "part"))
SEARCHED = Upsert(("id",), ("at", "part"), indexed_keys_max=1)
Rows = dict[int, str]
BEFORE: Rows = {0: "n0", 1: "new", 3: "n3", 4: "n4", 5: "n5"}

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


def change(key: int, at: int, name: str = "") -> Change:
    """A deletion where there is no name."""
    return Change(key, at, 0, name, not name)


def row(key: int, at: int, name: str) -> pa.Table:
    columns = pa.schema({"id": pa.int64(), "at": pa.int64(), "part": pa.int64(), "name": pa.string()})
    return pa.Table.from_pylist([{"id": key, "at": at, "part": 0, "name": name}], schema=columns)


@contextmanager
def iceberg(location: str) -> Iterator[IcebergTable]:
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    try:
        yield catalog.load_table("default.events")
    finally:
        catalog.close()


def append(kind: str, location: str, rows: pa.Table) -> None:
    if kind == "delta":
        write_deltalake(location, rows, mode="append")
        return
    with iceberg(location) as table:
        table.append(rows)


def append_a_key(kind: str, location: str) -> None:
    append(kind, location, row(77, 3, "theirs"))


def delete(kind: str, location: str, where: str = "id = 3") -> None:
    if kind == "delta":
        DeltaTable(location).delete(where)
        return
    with iceberg(location) as table:
        table.delete(where)


def update(kind: str, location: str) -> None:
    """A newer row by the engine's own way: its file is written again, or the row is deleted and inserted."""
    if kind == "delta":
        DeltaTable(location).update(updates={"name": "'theirs'", "at": "9"}, predicate="id = 4")
        return
    with iceberg(location) as table:
        table.upsert(row(4, 9, "theirs"), join_cols=["id"])


def rewrite(kind: str, location: str) -> None:
    """Compaction that knows nothing of us."""
    if kind == "delta":
        DeltaTable(location).optimize.compact()
        return
    with iceberg(location) as table:
        table.overwrite(table.scan().to_arrow())


DEEDS: list[tuple[Callable[[str, str], None], Rows]] = [
    (append_a_key, {**BEFORE, 77: "theirs"}),
    (delete, {key: name for key, name in BEFORE.items() if key != 3}),
    (update, {**BEFORE, 4: "theirs"}),
    (rewrite, BEFORE),
]


def rows_of(kind: str, location: str) -> Rows:
    found = read_elsewhere(kind, location).select(["id", "name"]).to_pylist()
    assert len({each["id"] for each in found}) == len(found), found
    return {each["id"]: each["name"] for each in found}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


def opened(kind: str, location: str) -> Table:
    return open_table(kind, location, app_id="app")


def filled(kind: str, location: str, how: Upsert = HOW) -> Table:
    """A table with a row that was replaced, and one that was deleted."""
    table = opened(kind, location)
    table.upsert(frame_of([change(key, 1, f"n{key}") for key in range(6)]), 0, how)
    table.upsert(frame_of([change(1, 2, "new"), change(2, 2)]), 1, how)
    assert rows_of(kind, location) == BEFORE
    return table


def during(changes: list[Change], meanwhile: Callable[[], object]) -> Any:
    tasks = frame_of(changes).tasks
    return LocalFrame(*tasks, meanwhile=meanwhile)


@pytest.mark.parametrize("is_new_process", [False, True])
@pytest.mark.parametrize("how", [HOW, SEARCHED], ids=["indexed", "searched"])
@pytest.mark.parametrize(("deed", "after"), DEEDS)
def test_what_a_stranger_changes_between_two_batches_is_found_by_the_next(
    kind: str, location: str, deed: Callable[[str, str], None], after: Rows, how: Upsert, *, is_new_process: bool
) -> None:
    table = filled(kind, location, how)
    deed(kind, location)
    assert rows_of(kind, location) == after
    table = opened(kind, location) if is_new_process else table
    keys = [0, 1, 3, 4, 77]
    # Newer than what is there of all but the row that the stranger has made newer.
    table.upsert(frame_of([change(key, 5, f"m{key}") for key in keys]), 2, how)
    newer = {key: after[key] if after.get(key) == "theirs" and key == 4 else f"m{key}" for key in keys}
    assert rows_of(kind, location) == {**after, **newer}
    table.upsert(frame_of([change(key, 20) for key in keys]), 3, how)
    assert rows_of(kind, location) == {5: "n5"}


@pytest.mark.parametrize("is_new_process", [False, True])
@pytest.mark.parametrize("how", [HOW, SEARCHED], ids=["indexed", "searched"])
def test_a_change_before_a_deletion_is_late_also_when_a_stranger_has_deleted_the_row_that_came_after_it(
    kind: str, location: str, how: Upsert, *, is_new_process: bool
) -> None:
    table = filled(kind, location, how)
    table.upsert(frame_of([change(2, 9, "back")]), 2, how)
    # As engines with merge on read do it: pyiceberg's own way removes the files of deletions, too.
    open_table(kind, location, app_id="other").upsert(frame_of([change(2, 9)]), 0, Upsert(("id",)))
    table = opened(kind, location) if is_new_process else table
    assert table.upsert(frame_of([change(2, 1, "late")]), 3, how).late == 1
    assert rows_of(kind, location) == BEFORE
    assert table.upsert(frame_of([change(2, 5, "newer")]), 4, how).late == 0
    assert rows_of(kind, location) == {**BEFORE, 2: "newer"}


@pytest.mark.parametrize(("deed", "after"), DEEDS)
def test_what_a_stranger_changes_during_a_batch_is_compared_with_it(
    kind: str, location: str, deed: Callable[[str, str], None], after: Rows
) -> None:
    table = filled(kind, location)
    changes = [change(3, 5, "m3"), change(5, 5, "m5"), change(77, 5, "m77")]
    table.upsert(during(changes, lambda: deed(kind, location)), 2, HOW)
    assert rows_of(kind, location) == {**after, 3: "m3", 5: "m5", 77: "m77"}
    assert opened(kind, location).last() == (2, {})


@pytest.mark.parametrize("is_new_process", [False, True])
def test_a_second_row_of_a_key_that_a_stranger_inserts_stops_the_next_batch_until_it_is_gone(
    kind: str, location: str, *, is_new_process: bool
) -> None:
    table = filled(kind, location)
    append(kind, location, row(5, 3, "surplus"))
    table = opened(kind, location) if is_new_process else table
    for _ in range(2):
        with pytest.raises(TableError) as refused:
            table.upsert(frame_of([change(0, 5, "m0")]), 2, HOW)
        assert str(refused.value).startswith(f"{location} has 1 rows of keys that have another row")
        assert "GROUP BY id HAVING count(*) > 1" in str(refused.value)
    found = read_elsewhere(kind, location).select(["id", "name"]).to_pylist()
    assert sorted(each["name"] for each in found) == sorted([*BEFORE.values(), "surplus"])
    assert table.last() == (1, {})
    delete(kind, location, "name = 'surplus'")
    table.upsert(frame_of([change(0, 5, "m0"), change(5, 2, "m5")]), 2, HOW)
    assert rows_of(kind, location) == {**BEFORE, 0: "m0", 5: "m5"}


def test_two_rows_of_one_key_in_one_file_stop_it_too(kind: str, location: str) -> None:
    filled(kind, location)
    append(kind, location, pa.concat_tables([row(90, 1, "one"), row(90, 2, "other")]))
    with pytest.raises(TableError, match="has 1 rows of keys that have another row"):
        opened(kind, location).upsert(frame_of([change(0, 5, "m0")]), 2, HOW)


def test_a_batch_whose_keys_could_not_be_read_is_right_when_the_same_process_repeats_it(
    kind: str, location: str
) -> None:
    table = filled(kind, location)
    folder = Path(location)
    known = set(folder.rglob("*.parquet"))
    append_a_key(kind, location)
    [theirs] = [path for path in folder.rglob("*.parquet") if path not in known]
    hidden = theirs.with_suffix(".away")
    theirs.rename(hidden)
    with pytest.raises(OSError, match=theirs.name):
        table.upsert(frame_of([change(77, 5, "m77"), change(0, 5, "m0")]), 2, HOW)
    hidden.rename(theirs)
    table.upsert(frame_of([change(77, 5, "m77"), change(0, 5, "m0")]), 2, HOW)
    assert rows_of(kind, location) == {**BEFORE, 0: "m0", 77: "m77"}


def test_remembered_deletions_that_could_not_be_read_are_known_when_the_same_process_repeats_the_batch(
    kind: str, location: str
) -> None:
    table = filled(kind, location)
    known = set(Path(location).rglob("deletions-*.parquet"))
    open_table(kind, location, app_id="other").upsert(frame_of([change(0, 9)]), 0, HOW)
    [theirs] = [path for path in Path(location).rglob("deletions-*.parquet") if path not in known]
    hidden = theirs.with_suffix(".away")
    theirs.rename(hidden)
    with pytest.raises(OSError, match=theirs.name):
        table.upsert(frame_of([change(0, 5, "late")]), 2, HOW)
    hidden.rename(theirs)
    assert table.upsert(frame_of([change(0, 5, "late")]), 2, HOW).late == 1
    assert rows_of(kind, location) == {key: name for key, name in BEFORE.items() if key != 0}


@pytest.mark.parametrize(
    "undone",
    [
        [change(2, 9, "back")],  # Its file goes.
        [*(change(key, 9, f"m{key}") for key in range(6))],  # A file comes back, whose rows were all replaced.
        [change(0, 9), change(2, 9, "back")],  # A vector has fewer rows.
        [change(0, 9)],
        [change(7, 9)],  # Of a key that has no row.
    ],
)
@pytest.mark.parametrize("is_new_process", [False, True])
def test_after_a_restore_the_deletions_of_that_version_are_remembered_and_no_later_ones(
    undone: list[Change], location: str, *, is_new_process: bool
) -> None:
    table = filled("delta", location)
    table.upsert(frame_of(undone), 2, HOW)
    DeltaTable(location).restore(1)
    assert rows_of("delta", location) == BEFORE
    table = opened("delta", location) if is_new_process else table
    written = table.upsert(frame_of([change(2, 1, "late"), change(0, 2, "m0"), change(7, 1, "n7")]), 2, HOW)
    assert written.late == 1
    assert rows_of("delta", location) == {**BEFORE, 0: "m0", 7: "n7"}
    assert table.last() == (2, {})
