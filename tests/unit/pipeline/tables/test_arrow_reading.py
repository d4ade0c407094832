"""What is read of a table, in which task: files in groups, ranges by bounds."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyroaring import BitMap64

from sordini.pipeline.tables.arrow_reading import GROUP_BYTES, TASKS_MIN, ParquetFiles, TableFile, Within, grouped

PARTS = some.lists(some.integers(0, 3 * GROUP_BYTES), max_size=60)
EDGE = some.none() | some.integers(-20, 20)
COLUMNS = pa.schema({"n": pa.int64(), "text": pa.string(), "day": pa.string()})


@given(PARTS)
def test_every_file_is_in_one_group_and_groups_keep_the_order(sizes: list[int]) -> None:
    groups = grouped(list(enumerate(sizes)))
    assert [number for group in groups for number in group] == list(range(len(sizes)))
    assert all(groups)


@given(PARTS)
def test_a_group_has_no_more_than_twice_its_share_but_for_a_single_file(sizes: list[int]) -> None:
    groups = grouped(list(enumerate(sizes)))
    share = max(sum(sizes) / max(TASKS_MIN, 1), GROUP_BYTES)
    for group in groups:
        assert len(group) == 1 or sum(sizes[number] for number in group[1:-1]) <= share


@given(some.lists(some.integers(-20, 20), min_size=1), EDGE, EDGE)
def test_a_file_that_has_rows_in_a_range_is_never_skipped_by_its_bounds(
    numbers: list[int], first: int | None, end: int | None
) -> None:
    within = Within("n", first, end)
    kept = pa.table({"n": numbers}).filter(within.expression())["n"].to_pylist()
    assert kept == [n for n in numbers if (first is None or n >= first) and (end is None or n < end)]
    assert within.overlaps(min(numbers), max(numbers)) or not kept
    assert within.overlaps(None, None)


@given(some.sets(some.integers(0, 299)), EDGE)
def test_rows_that_a_vector_deletes_are_left_out_whatever_is_read(gone: set[int], first: int | None) -> None:
    files = pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs._MockFileSystem())
    rows = pa.table({"n": [number % 7 for number in range(300)], "m": range(300)})
    with files.open_output_stream("a.parquet") as file:
        pq.write_table(rows, file, row_group_size=50)
    part = TableFile("a.parquet", {}, BitMap64(sorted(gone)).serialize())
    reader = ParquetFiles(lambda: files, rows.schema, Within("n", first))
    found = [row for batch in reader.rows([part], pa.schema({"m": pa.int64()})) for row in batch["m"].to_pylist()]
    assert found == [m for m in range(300) if m not in gone and (first is None or m % 7 >= first)]


@given(some.sets(some.integers(0, 299)))
def test_rows_are_not_lost_where_only_partition_columns_are_read(gone: set[int]) -> None:
    files = pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs._MockFileSystem())
    with files.open_output_stream("a.parquet") as file:
        pq.write_table(pa.table({"n": range(300)}), file)
    part = TableFile("a.parquet", {"day": "x"}, BitMap64(sorted(gone)).serialize())
    reader = ParquetFiles(lambda: files, pa.schema({"n": pa.int64()}))
    found = [row for batch in reader.rows([part], pa.schema({"day": pa.string()})) for row in batch.to_pylist()]
    assert found == [{"day": "x"}] * (300 - len(gone))


@pytest.mark.parametrize("gone", [[], [0]])
def test_times_that_spark_wrote_in_96_bits_are_read_up_to_the_year_9999(gone: list[int], tmp_path: Path) -> None:
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    columns = pa.schema({"until": pa.timestamp("us", "UTC")})
    rows = pa.table({"until": [last, last]}, schema=columns)
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)

    def folder() -> pyarrow.fs.FileSystem:
        return pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())

    part = TableFile("a.parquet", {}, BitMap64(gone).serialize() if gone else b"")
    found = [row for batch in ParquetFiles(folder, columns).rows([part], columns) for row in batch.to_pylist()]
    assert found == [{"until": last}] * (2 - len(gone))


def test_files_are_read_with_the_tables_columns_whatever_their_own_are(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1, None, 3], pa.int32())}), tmp_path / "old.parquet")
    pq.write_table(pa.table({"text": ["a"], "n": pa.array([9], pa.int64())}), tmp_path / "new.parquet")

    def folder() -> pyarrow.fs.FileSystem:
        return pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())

    inside = pa.schema([COLUMNS.field("n"), COLUMNS.field("text")])
    parts = [TableFile("old.parquet", {"day": "x"}), TableFile("new.parquet", {"day": None})]

    def read(within: Within | None = None) -> list[dict[str, object]]:
        reader = ParquetFiles(folder, inside, within)
        return [row for batch in reader.rows(parts, COLUMNS) for row in batch.to_pylist()]

    assert read() == [
        {"n": 1, "text": None, "day": "x"},
        {"n": None, "text": None, "day": "x"},
        {"n": 3, "text": None, "day": "x"},
        {"n": 9, "text": "a", "day": None},
    ]
    assert [row["n"] for row in read(Within("n", 3))] == [3, 9]
