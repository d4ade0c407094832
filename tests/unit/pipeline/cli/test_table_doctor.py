"""`sordini pipeline doctor` on tables in a folder, with one fault planted in each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from sordini.cli.__main__ import main
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.table_doctor import TableReport
from sordini.pipeline.tables import open_table
from sordini.pipeline.tables.health import TableHealth
from tests.support.frames import KINDS, LocalFrame

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


def rows(offsets: range, **more: Any) -> Any:
    columns = {
        "topic": pa.array(["views"] * len(offsets)),
        "partition": pa.array([0] * len(offsets), pa.int32()),
        "offset": pa.array(list(offsets), pa.int64()),
    }
    columns |= {name: pa.array([value] * len(offsets)) for name, value in more.items()}
    return LocalFrame([pa.RecordBatch.from_pydict(columns)])


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = open_table(request.param, str(tmp_path / "views"), app_id="views")
    made.append(rows(range(10)), 0, {"views": {0: 10}})
    return made


def examined(location: str) -> tuple[int, dict[str, Any], list[dict[str, str]]]:
    """The exit code, the first table, and what was found."""
    result = CliRunner().invoke(main, ["pipeline", "doctor", location, "--json"])
    report = json.loads(result.stdout)
    return result.exit_code, report[0], [found for each in report for found in each["findings"]]


def test_a_table_without_a_fault_is_well(table: Any) -> None:
    code, report, found = examined(table.location)
    assert (code, found) == (0, [])
    assert (report["files"], report["small_files"], report["missing"], report["gaps"]) == (1, 1, [], [])
    assert report["writers"]["views"]["batch"] == 0
    said = CliRunner().invoke(main, ["pipeline", "doctor", table.location]).output
    assert "writer views: batch 0" in said
    assert "All is well." in said


def test_a_file_that_is_gone_is_named(table: Any) -> None:
    [path] = table.files()
    Path(path).unlink()
    code, report, [found] = examined(table.location)
    assert (code, found["what"], len(report["missing"])) == (1, "missing", 1)
    assert Path(path).name in found["text"]


def test_offsets_without_a_row_are_a_gap_unless_they_are_dead_letters(table: Any, tmp_path: Path) -> None:
    table.append(rows(range(14, 20)), 1, {"views": {0: 20}})
    kind = "delta" if (tmp_path / "views" / "_delta_log").exists() else "iceberg"
    letters = open_table(kind, f"{table.location}-dead", app_id="views")
    letters.append(rows(range(10, 12), reason="n is not an int"), 1, {"views": {0: 20}})
    code, report, [gap, dead] = examined(table.location)
    assert code == 1
    assert report["gaps"] == [{"topic": "views", "partition": 0, "start": 12, "end": 14}]
    assert gap["text"] == "2 offsets are missing between the first and last row: views-0@12..13"
    assert (dead["what"], dead["text"]) == ("dead_letters", "2 records could not be decoded: 2 x n is not an int")


def test_rows_of_one_record_are_counted(table: Any) -> None:
    kind = "delta" if Path(table.location, "_delta_log").exists() else "iceberg"
    open_table(kind, table.location, app_id="b").append(rows(range(3)), 0)
    _, report, [found] = examined(table.location)
    assert (report["repeated"], found["what"]) == (3, "repeated")


def test_files_of_no_version_are_named_when_they_are_old(table: Any) -> None:
    [path] = table.files()
    young, old = (Path(path).with_name(f"stranger-{age}.parquet") for age in ("young", "old"))
    for each in (young, old):
        each.write_bytes(Path(path).read_bytes())
    os.utime(old, (0, 0))
    code, report, [found] = examined(table.location)
    assert (code, found["what"]) == (1, "orphaned")
    assert [Path(each).name for each in report["orphaned"]] == ["stranger-old.parquet"]


def test_a_table_that_no_job_has_written_is_reported(tmp_path: Path) -> None:
    location = str(tmp_path / "theirs")
    write_deltalake(location, pa.table({"id": [1]}))
    _, _, [found] = examined(location)
    assert found["what"] == "writers"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"small_files": 201, "files": 300}, "small_files"),
        ({"delete_files": 201}, "delete_files"),
        ({"versions": 151}, "versions"),
    ],
)
def test_what_costs_readers_and_batches_time_is_named_by_its_number(change: dict[str, int], what: str) -> None:
    plain = TableHealth("iceberg", "t", 1, 1, 0, 0, 1, 1, (), (), 0, {"views": {}}, ("id",), ())
    assert TableReport(plain).findings() == []
    [found] = TableReport(plain._replace(**change)).findings()
    assert found.what == what
    assert str(next(iter(change.values()))) in found.text


def test_a_place_that_is_no_table_is_reported_in_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["pipeline", "doctor", str(tmp_path)])
    assert result.exit_code == 1
    assert "is neither a job file nor the folder of a Delta or Iceberg table" in result.output


def test_a_stranger_s_compaction_and_vacuum_leave_a_table_well(tmp_path: Path) -> None:
    table = open_table("delta", str(tmp_path / "views"), app_id="views")
    for number in range(4):
        table.append(rows(range(number * 5, number * 5 + 5)), number, {"views": {0: number * 5 + 5}})
    theirs = DeltaTable(table.location)
    theirs.optimize.compact()
    theirs.vacuum(0, dry_run=False, enforce_retention_duration=False)
    code, report, found = examined(table.location)
    assert (code, report["files"], found) == (0, 1, [])


def test_of_a_job_without_a_table_it_is_said_and_one_that_is_gone_is_no_table_that_never_was(tmp_path: Path) -> None:
    path = tmp_path / "views.yaml"
    path.write_text("name: views\nsource: {topics: [views]}\nsink: {location: tables/views}\n")
    said = CliRunner().invoke(main, ["pipeline", "doctor", str(path)])
    assert (said.exit_code, said.output) == (0, "There are no tables yet.\n")
    piece = {"batch_id": 3, "start": {"views": {"0": 0}}, "end": {"views": {"0": 5}}}
    StateFolder(str(tmp_path / ".sordini/views")).write("load/done.json", piece)
    said = CliRunner().invoke(main, ["pipeline", "doctor", str(path)])
    assert said.exit_code == 1
    assert f"there is no table at {tmp_path}/tables/views, and job views has written batch 3 into it" in said.output
