from __future__ import annotations

import datetime as dt

import pytest

from sordini.pipeline.tables.file_names import DATA_FILE, file_name, new_attempt, plain_folder, text_of


def test_values_of_partitions_are_written_as_delta_and_spark_write_them() -> None:
    values = ["a", True, False, -7, dt.date(2026, 11, 22), None, ""]
    assert [text_of(value) for value in values] == ["a", "true", "false", "-7", "2026-11-22", None, None]


def test_a_folder_for_people_s_eyes_is_left_out_where_readers_would_differ() -> None:
    assert plain_folder({"day": "2026-11-22"}) == "day=2026-11-22"
    assert [plain_folder({"site": value}) for value in ("a b", "ü", None)] == ["", "", ""]


def test_a_value_that_is_too_long_for_a_file_system_is_no_folder() -> None:
    assert plain_folder({"day": "x", "site": "a" * 195}) == f"day=x/site={'a' * 195}"
    assert plain_folder({"day": "x", "site": "a" * 300}) == ""


def test_files_of_all_tasks_and_attempts_have_different_names() -> None:
    attempt = new_attempt()
    names = {file_name(attempt, 0) for _ in range(100)} | {file_name(new_attempt(), 0)}
    assert len(names) == 101
    assert all(DATA_FILE.fullmatch(name) for name in names)


@pytest.mark.parametrize("name", ["part-00000-4a72748f-699d-4b08-c000.zstd.parquet", "part-0.parquet", "x.parquet"])
def test_files_of_others_are_not_taken_for_ours(name: str) -> None:
    assert DATA_FILE.fullmatch(name) is None
