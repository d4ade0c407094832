"""The newest commits of a Delta table are read by their names, and farther ones by its history."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from sordini.pipeline.tables.delta.commit_infos import NEAR, CommitInfos

COMMITS = NEAR + 5


@pytest.fixture
def location(tmp_path: Path) -> str:
    """A table whose commits say their number."""
    path = str(tmp_path / "table")
    for number in range(COMMITS):
        said = CommitProperties(custom_metadata={"n": str(number)})
        write_deltalake(path, pa.table({"id": [number]}), mode="append", commit_properties=said)
    return path


def infos_of(location: str, version: int | None = None) -> CommitInfos:
    return CommitInfos(DeltaTable(location, version=version), SubTreeFileSystem(location, LocalFileSystem()))


def numbers(infos: CommitInfos, count: int | None = None) -> list[int]:
    return [int(info["n"]) for info in islice(infos, count)]


@pytest.mark.parametrize("version", [0, 3, NEAR - 1, NEAR, COMMITS - 1])
def test_commits_are_those_up_to_the_version_and_the_newest_is_first(location: str, version: int) -> None:
    infos = infos_of(location, version)
    assert numbers(infos) == list(range(version, -1, -1))
    assert numbers(infos) == list(range(version, -1, -1)), "asked again"


def test_those_that_were_cleaned_up_are_the_end(location: str) -> None:
    infos = infos_of(location)
    for number in range(COMMITS - 3):
        (Path(location) / "_delta_log" / f"{number:020}.json").unlink()
    assert numbers(infos) == [COMMITS - 1, COMMITS - 2, COMMITS - 3]


def test_no_more_are_read_than_are_looked_at(location: str) -> None:
    infos = infos_of(location)
    assert numbers(infos, 1) == [COMMITS - 1]
    (Path(location) / "_delta_log" / f"{COMMITS - 2:020}.json").unlink()
    assert numbers(infos) == [COMMITS - 1], "the second is looked for now"


def test_a_commit_that_could_not_be_read_is_no_end_of_the_log_when_it_is_asked_again(location: str) -> None:
    infos = infos_of(location)
    path = Path(location) / "_delta_log" / f"{COMMITS - 3:020}.json"
    away = path.rename(path.with_suffix(".away"))
    path.mkdir()
    with pytest.raises(OSError, match=path.name):
        numbers(infos)
    path.rmdir()
    away.rename(path)
    assert numbers(infos) == list(range(COMMITS - 1, -1, -1))


def test_a_commit_that_says_nothing_of_itself_is_one(location: str) -> None:
    path = Path(location) / "_delta_log" / f"{COMMITS - 1:020}.json"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "commitInfo" not in line]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert list(islice(infos_of(location), 1)) == [{}]
