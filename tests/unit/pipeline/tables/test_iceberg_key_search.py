"""Iceberg tables with more keys than an index may have: each batch is searched, and nothing of the table is kept."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sordini.pipeline.tables import Upsert, open_table
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.iceberg.key_places import BatchKeys, IcebergKeyPlaces
from sordini.pipeline.tables.key_fingerprints import fingerprints
from tests.unit.pipeline.tables.test_iceberg_upserts import frame, loaded, opened, rows_of
from tests.unit.pipeline.tables.test_upsert_laws import change, frame_of
from tests.unit.pipeline.tables.test_upsert_laws import rows_of as names_of

LIMIT = 4
HOW = Upsert(("id",), ("at",), indexed_keys_max=LIMIT)
COLUMNS = pa.schema({"id": pa.int64(), "at": pa.int64()})


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


def keys_of(*ids: int) -> BatchKeys:
    rows = pa.table({"id": pa.array(ids, pa.int64())})
    return BatchKeys(fingerprints(rows, ["id"]), rows)


def test_an_index_ends_when_a_table_has_more_keys_and_begins_when_it_has_fewer(location: str) -> None:
    table = opened(location)
    places = IcebergKeyPlaces(HOW)

    def is_indexed() -> bool:
        with loaded(location) as found:
            return places.follow(found, COLUMNS)

    table.upsert(frame(dict.fromkeys(range(LIMIT), 1)), 0, HOW)
    assert is_indexed()
    assert len(places) > 0
    # A row that is replaced makes no more keys, and a deletion is remembered instead of its row.
    table.upsert(frame({0: 2, 1: 2}, (1,)), 1, HOW)
    assert is_indexed()
    table.upsert(frame({LIMIT: 1}), 2, HOW)
    assert not is_indexed()
    assert len(places) == 0
    with loaded(location) as found:
        found.delete("id >= 3")
    assert is_indexed()
    assert rows_of(location) == {0: 2, 2: 1}


def test_of_a_table_that_is_searched_the_files_that_cannot_have_a_key_are_not_read(location: str) -> None:
    table = opened(location)
    for number in range(3):
        table.upsert(frame(dict.fromkeys(range(10 * number, 10 * number + 4), 1)), number, HOW)
    with loaded(location) as found:
        assert len(planned(found)) == 6
        assert len(planned(found, keys_of(11, 13).where(found))) == 2
        assert len(planned(found, keys_of(500).where(found))) == 0
        read = IcebergKeyPlaces(HOW, keys_of(11, 500))
        assert read.follow(found, COLUMNS)
    assert len(read) == 1, "of the rows that were read the batch's keys alone"


def test_deletions_are_remembered_by_a_search_too_also_where_keys_are_partitions(location: str) -> None:
    table = open_table("iceberg", location, app_id="app", partition_by=("id",))
    how = Upsert(("id",), ("at", "part"), indexed_keys_max=LIMIT)
    table.upsert(frame_of([change(key, 5, f"n{key}") for key in range(8)]), 0, how)
    table.upsert(frame_of([change(3, 6), change(4, 6)]), 1, how)
    done = table.upsert(frame_of([change(3, 5, "late"), change(4, 7, "new"), change(5, 4, "late")]), 2, how)
    assert (done.rows, done.late) == (1, 2)
    assert names_of("iceberg", location) == {**{key: f"n{key}" for key in range(8) if key != 3}, 4: "new"}
