from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.tables.delta.delta_lake import RemoteOutputs as DeltaOutputs
from sordini.pipeline.tables.iceberg.iceberg_table import RemoteOutputs as IcebergOutputs
from sordini.pipeline.tables.local_files import LocalOutputs, local_path
from sordini.pipeline.tables.staging import OPEN_FILES_MAX, FileSettings, Outputs, Staged, StagingPlan, write
from sordini.pipeline.tables.table import TableError
from tests.support.frames import batch


def plan(folder: Path, rows: pa.RecordBatch, *partition_by: str, **more: Any) -> StagingPlan:
    return StagingPlan(LocalOutputs(str(folder)), "0" * 32, rows.schema, partition_by, **more)


def read(folder: Path, staged: list[Staged]) -> list[dict[str, Any]]:
    return [row for each in staged for row in pq.ParquetFile(folder / each.path).read().to_pylist()]


def statistics(folder: Path, **columns: pa.Array) -> dict[str, Any]:
    rows = pa.RecordBatch.from_pydict(columns)
    [staged] = write([rows], plan(folder, rows))
    found: dict[str, Any] = json.loads(staged.statistics)
    return found


def test_rows_of_a_task_stay_in_their_order(tmp_path: Path) -> None:
    batches = [batch(range(5)), batch([]), batch(range(5, 9))]
    staged = list(write(batches, plan(tmp_path, batches[0])))
    assert [row["id"] for row in read(tmp_path, staged)] == list(range(9))
    assert [(each.rows, each.bytes) for each in staged] == [(9, (tmp_path / staged[0].path).stat().st_size)]


def test_a_task_without_rows_makes_no_file(tmp_path: Path) -> None:
    assert list(write([batch([])], plan(tmp_path, batch([])))) == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_has_grown_enough_is_followed_by_another(tmp_path: Path) -> None:
    rows = batch(range(200_000))
    settings = FileSettings(file_bytes=1)
    staged = list(write([rows, rows], plan(tmp_path, rows, settings=settings)))
    assert [each.rows for each in staged] == [200_000, 200_000]


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2])), max_size=60))
def test_every_row_is_in_the_file_of_its_values_and_nowhere_else(pairs: list[tuple[str | None, int | None]]) -> None:
    sites, numbers = [site for site, _ in pairs], [number for _, number in pairs]
    rows = pa.RecordBatch.from_pydict(
        {
            "at": pa.array(range(len(pairs)), pa.int64()),
            "site": pa.array(sites, pa.string()),
            "n": pa.array(numbers, pa.int64()),
        }
    )
    outputs = InMemory()
    halves = [rows.slice(0, len(pairs) // 2), rows.slice(len(pairs) // 2)]
    wanted = StagingPlan(outputs, "0" * 32, rows.schema, ("site", "n"))
    found = []
    for staged in write(halves, wanted):
        table = pq.read_table(pa.BufferReader(outputs.files[staged.path]))
        assert table.column_names == ["at"]
        number = staged.partition["n"]
        found += [(at, staged.partition["site"], number and int(number)) for at in table["at"].to_pylist()]
    assert sorted(found) == [(at, *pair) for at, pair in enumerate(pairs)]


class InMemory:
    """An object store, as far as one is needed."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def create(self, path: str) -> Any:
        outputs = self

        class Sink(pa.BufferOutputStream):
            def close(self) -> None:
                if not self.closed:
                    outputs.files[path] = self.getvalue().to_pybytes()

        return Sink()


def test_more_partition_values_than_files_may_be_open_make_more_files(tmp_path: Path) -> None:
    numbers = pa.array(list(range(OPEN_FILES_MAX + 3)) * 2, pa.int64())
    rows = pa.RecordBatch.from_pydict({"n": numbers, "x": numbers})
    staged = list(write([rows.slice(0, len(rows) // 2), rows.slice(len(rows) // 2)], plan(tmp_path, rows, "n")))
    assert sorted(row["x"] for row in read(tmp_path, staged)) == sorted(numbers.to_pylist())


def test_rows_that_end_in_an_error_leave_no_file_open(tmp_path: Path) -> None:
    class Opened(LocalOutputs):
        files: list[Any] = []  # noqa: RUF012  One test, one list.

        def create(self, path: str) -> Any:
            file = super().create(path)
            self.files.append(file)
            return file

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(range(6))
        raise RuntimeError("broken")

    broken = StagingPlan(Opened(str(tmp_path)), "0" * 32, batch([]).schema, ("site",))
    with pytest.raises(RuntimeError, match="broken"):
        list(write(rows(), broken))
    assert len(Opened.files) == 3
    assert all(file.closed for file in Opened.files)


def test_statistics_have_bounds_and_nulls_as_delta_writes_them(tmp_path: Path) -> None:
    time = dt.datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=dt.UTC)
    found = statistics(
        tmp_path,
        n=pa.array([3, None, -1]),
        day=pa.array([dt.date(2026, 1, 2), dt.date(2026, 1, 1), None]),
        time=pa.array([time, time, time], pa.timestamp("us", "UTC")),
        wall=pa.array([time.replace(tzinfo=None), None, None], pa.timestamp("us")),
        text=pa.array(["b", "a", "ü"]),
        empty=pa.array([None, None, None], pa.string()),
    )
    assert found == {
        "numRecords": 3,
        "minValues": {
            "n": -1,
            "day": "2026-01-01",
            "time": "2026-11-22T01:02:03.000004Z",
            "wall": "2026-11-22T01:02:03.000004",
            "text": "a",
        },
        "maxValues": {
            "n": 3,
            "day": "2026-01-02",
            "time": "2026-11-22T01:02:03.000004Z",
            "wall": "2026-11-22T01:02:03.000004",
            "text": "ü",
        },
        "nullCount": {"n": 1, "day": 1, "time": 0, "wall": 2, "text": 0, "empty": 3},
    }


FIRST, AFTER_LAST = -62_135_596_800_000_000, 253_402_300_800_000_000
TIME, DATE = pa.timestamp("us", "UTC"), pa.date32()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pa.array([None, 0, AFTER_LAST], TIME), "'x' has 10000-01-01T00:00:00.000000"),
        (pa.array([FIRST - 1, 0], pa.timestamp("us")), "'x' has 0000-12-31T23:59:59.999999"),
        (pa.array([AFTER_LAST // 86_400_000_000], DATE), "'x' has 10000-01-01"),
        (pa.array([-719_163], DATE), "'x' has 0000-12-31"),
    ],
)
@pytest.mark.parametrize("by", [(), ("day",)])
def test_times_that_readers_of_tables_lack_are_refused_with_their_column_before_a_file_is_made(
    tmp_path: Path, values: pa.Array, found: str, by: tuple[str, ...]
) -> None:
    rows = pa.RecordBatch.from_pydict({"x": values, "day": pa.array([0] * len(values), DATE)})
    with pytest.raises(TableError) as refused:
        list(write([rows], plan(tmp_path, rows, *by)))
    assert str(refused.value).startswith(f"column {found}")
    assert str(refused.value).endswith(": tables have times of the years 1 to 9999")
    assert list(tmp_path.iterdir()) == []


def test_a_partition_of_a_date_that_readers_of_tables_lack_is_refused(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"x": pa.array([1]), "day": pa.array([2_932_897], DATE)})
    with pytest.raises(TableError, match="column 'day' has 10000-01-01: "):
        list(write([rows], plan(tmp_path, rows, "day")))


def test_the_first_and_the_last_moment_of_tables_are_written_also_behind_nulls_and_in_slices(tmp_path: Path) -> None:
    moments = pa.array([AFTER_LAST, FIRST, AFTER_LAST - 1, None, AFTER_LAST], TIME).slice(1, 3)
    lists = pa.array([None, [AFTER_LAST], []], pa.list_(TIME))
    days = pa.array([2_932_896, -719_162, None], DATE)
    rows = pa.RecordBatch.from_arrays([moments, lists, days], ["moment", "list", "day"])
    [staged] = write([rows], plan(tmp_path, rows))
    bounds = json.loads(staged.statistics)["maxValues"]
    assert bounds == {"moment": "9999-12-31T23:59:59.999999Z", "day": "9999-12-31"}


def test_columns_whose_bounds_could_mislead_have_none(tmp_path: Path) -> None:
    found = statistics(
        tmp_path,
        share=pa.array([1.0, float("nan")]),
        long=pa.array(["a", "x" * 33]),
        flag=pa.array([True, False]),
        value=pa.array([b"a", b"b"]),
        list=pa.array([["a"], ["b"]]),
    )
    assert (found["minValues"], found["maxValues"]) == ({}, {})


def test_bounds_span_all_row_groups(tmp_path: Path) -> None:
    batches = [batch(range(150_000)), batch(range(150_000, 300_000))]
    [staged] = write(batches, plan(tmp_path, batches[0]))
    found = json.loads(staged.statistics)
    assert pq.ParquetFile(tmp_path / staged.path).num_row_groups > 1
    assert (found["minValues"]["id"], found["maxValues"]["id"], found["numRecords"]) == (0, 299_999, 300_000)


def test_files_are_created_through_the_libraries_of_delta_and_iceberg_too(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}"
    rows = batch(range(4))
    remote: list[Outputs] = [DeltaOutputs(uri, ()), IcebergOutputs(uri, ())]
    for outputs in remote:
        [staged] = write([rows], StagingPlan(outputs, "0" * 32, rows.schema))
        assert read(tmp_path, [staged]) == rows.to_pylist()
        assert staged.bytes == (tmp_path / staged.path).stat().st_size


def test_locations_are_folders_or_uris() -> None:
    assert local_path("/a/b c") == local_path("file:///a/b%20c") == Path("/a/b c")
    assert local_path("s3://bucket/a") is None
