"""Which files of its log a batch of a Delta table reads: in an object store each is a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem as LocalFiles
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

from sordini.pipeline.tables import Upsert, open_table
from sordini.pipeline.tables.delta.delta_lake import DeltaLake
from sordini.pipeline.tables.delta.files import Access
from sordini.pipeline.tables.delta.log import DeltaLog, LocalPuts
from sordini.pipeline.tables.staging import FileSettings
from tests.support.frames import frame


class Counting(DirFileSystem):
    """A table's folder that lists which of its files were opened."""

    def __init__(self, location: str) -> None:
        super().__init__(location, LocalFiles())
        self.opened: list[str] = []

    def open(self, path: str, *arguments: Any, **options: Any) -> Any:
        self.opened.append(path)
        return super().open(path, *arguments, **options)


class Counted(DeltaLake):
    """A table whose files are opened through a file system that counts; deltalake's own reading is not counted."""

    def __init__(self, location: str) -> None:
        super().__init__(location, "app", (), FileSettings(), Access())
        self._folder_of = Path(location)
        self.counting = Counting(location)

    def renew_keys(self) -> None:
        """As a provider of an object store's keys does it from time to time."""
        self._access = Access(options={"timeout": "20s"})

    def _file_system(self) -> FileSystem:
        return PyFileSystem(FSSpecHandler(self.counting))

    def _log_and_files(self) -> tuple[DeltaLog, FileSystem]:
        return DeltaLog(self._file_system(), LocalPuts(self._folder_of)), self._file_system()


@pytest.mark.parametrize("upserts", [False, True])
def test_a_batch_reads_the_newest_commit_once_and_no_older_one(upserts: bool, tmp_path: Path) -> None:
    location = str(tmp_path / "events")
    table = Counted(location)
    for number in range(4):
        table.counting.opened.clear()
        ids = range(number * 4, number * 4 + 4)
        if upserts:
            table.upsert(frame(ids, _deleted=False), number, Upsert(("id",)), {"t": {0: number}})
        else:
            table.append(frame(ids), number, {"t": {0: number}})
        read = [path for path in table.counting.opened if path.startswith("_delta_log/")]
        assert read == [f"_delta_log/{number - 1:020}.json"] * min(number, 1)


def test_a_commit_of_another_writer_is_read_for_its_notes_and_for_its_files(tmp_path: Path) -> None:
    location = str(tmp_path / "events")
    ours, theirs = Counted(location), open_table("delta", location, app_id="other")
    ours.upsert(frame(range(4), _deleted=False), 0, Upsert(("id",)))
    theirs.upsert(frame(range(4, 8), _deleted=False), 0, Upsert(("id",)))
    ours.counting.opened.clear()
    ours.upsert(frame(range(8, 12), _deleted=False), 1, Upsert(("id",)))
    read = [path for path in ours.counting.opened if path.startswith("_delta_log/")]
    assert sorted(read) == [f"_delta_log/{version:020}.json" for version in (0, 1, 1)]
    assert len(ours.live_files()) == 6


def test_expired_commits_are_looked_for_with_one_commit_of_twenty_as_that_lists_the_whole_log(tmp_path: Path) -> None:
    table = open_table("delta", str(tmp_path / "events"), app_id="app")
    table.append(frame(range(1)), 0)
    expire_at_once = {"delta.logRetentionDuration": "interval 0 seconds", "delta.checkpointInterval": "5"}
    DeltaTable(tmp_path / "events").alter.set_table_properties(expire_at_once)
    removed_at = []
    kept = 2
    for number in range(1, 62):
        table.append(frame(range(1)), number)
        now = len(list((tmp_path / "events" / "_delta_log").glob("*[0-9].json")))
        if now <= kept:
            removed_at.append(number + 1)  # The version.
        kept = now
    assert removed_at == [20, 40, 60]


def test_with_new_keys_of_an_object_store_neither_log_nor_index_is_read_again(tmp_path: Path) -> None:
    table = Counted(str(tmp_path / "events"))
    for number in range(3):
        table.upsert(frame(range(4), _deleted=False), number, Upsert(("id",)))
    table.renew_keys()
    table.counting.opened.clear()
    table.upsert(frame(range(4), _deleted=False), 3, Upsert(("id",)))
    staged = [path for path in table.counting.opened if path.startswith("part-")]
    assert [path for path in table.counting.opened if path.startswith("_delta_log/")] == [f"_delta_log/{2:020}.json"]
    assert len(staged) == 2, "the files of the batch alone"


def test_a_commit_behind_those_of_others_is_read_with_them(tmp_path: Path) -> None:
    """A commit that needs no files of the version before, as one that changes the table's properties."""
    location = str(tmp_path / "events")
    table = open_table("delta", location, app_id="app")
    table.upsert(frame(range(4), _deleted=False), 0, Upsert(("id",)))
    log, _ = Counted(location)._log_and_files()
    first = set(log.snapshot(0).files)
    table.upsert(frame(range(10, 14), _deleted=False), 1, Upsert(("id",)))
    assert log.commit(2, [{"commitInfo": {"operation": "SET TBLPROPERTIES"}}])
    assert first < set(log.snapshot(2).files) == set(Counted(location)._log_and_files()[0].snapshot(2).files)
