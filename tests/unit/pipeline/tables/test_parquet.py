"""What Parquet tables promise beyond the other kinds: a folder, and a manifest, that anybody can read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables import Table, TableError, open_table
from sordini.pipeline.tables.manifest import Commit, Listed, read_manifest
from sordini.pipeline.tables.manifest_store import ManifestStore
from tests.support.frames import frame, plain_ids


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "events"


@pytest.fixture
def table(folder: Path) -> Table:
    return open_table("parquet", str(folder), app_id="app", partition_by=("site",))


def parquet_files(folder: Path) -> list[str]:
    """What the most naive reader finds: names, hidden or not."""
    return sorted(str(path) for path in folder.rglob("*.parquet"))


def test_every_file_that_a_listing_finds_is_the_table_s(table: Table, folder: Path) -> None:
    seen: list[list[str]] = []
    table.append(frame(range(6), meanwhile=lambda: seen.append(parquet_files(folder))), 0)
    assert seen == [[]]
    assert parquet_files(folder) == table.files()
    table.compact(1_000_000)
    assert parquet_files(folder) == table.files()
    assert not list((folder / "_sordini" / "staging").iterdir())


def test_the_manifest_names_files_that_any_reader_can_read(table: Table, folder: Path) -> None:
    table.append(frame(range(6)), 0)
    listed = json.loads((folder / "_manifest.json").read_text(encoding="utf-8"))["files"]
    files = [str(folder / each["path"]) for each in listed]
    rows = ds.dataset(files, partitioning="hive", partition_base_dir=str(folder)).to_table()
    assert sorted(rows["id"].to_pylist()) == list(range(6))
    assert set(rows["site"].to_pylist()) == {None, "plain", "a b/ü%"}
    assert sum(each["rows"] for each in listed) == 6


def test_a_commit_that_was_not_carried_out_is_carried_out_by_the_next_who_looks(table: Table, folder: Path) -> None:
    table.append(frame(range(6)), 0)
    [first, *_] = table.files()
    manifest = read_manifest((folder / "_manifest.json").read_text(encoding="utf-8"), "")
    path = Path(first).relative_to(folder)
    # As if the writer had died after the moment of a commit that puts this file in its place.
    ledger = ManifestStore(folder)
    staged = ledger.staging / "dead" / "file"
    staged.parent.mkdir(parents=True)
    Path(first).rename(staged)
    ledger.note(Commit(manifest._replace(version=9), (("dead/file", str(path)),)))
    assert first in table.files()
    assert Path(first).exists()
    assert read_manifest((folder / "_manifest.json").read_text(encoding="utf-8"), "").version == 9


def test_a_committed_file_that_is_nowhere_is_reported(table: Table, folder: Path) -> None:
    table.append(frame(range(6)), 0)
    manifest = read_manifest((folder / "_manifest.json").read_text(encoding="utf-8"), "")
    ManifestStore(folder).note(Commit(manifest, (("dead/file", "part-lost.parquet"),)))
    with pytest.raises(TableError, match="is part of the table, but does not exist"):
        table.last()


def test_staged_files_that_vanish_before_the_commit_stop_it(table: Table, folder: Path) -> None:
    def vanish() -> None:
        for path in (folder / "_sordini" / "staging").rglob("*.staged"):
            path.unlink()

    with pytest.raises(TableError, match="cleaned up, or is on another machine"):
        table.append(frame(range(6), meanwhile=vanish), 0)
    assert table.last() is None


def test_a_batch_that_is_being_staged_is_not_cleaned_up_however_many_files_of_it_are_old(
    table: Table, folder: Path
) -> None:
    def clean() -> None:
        [oldest, *_] = sorted((folder / "_sordini" / "staging").rglob("*.staged"))
        os.utime(oldest, (0, 0))
        other = open_table("parquet", str(folder), app_id="other")
        assert other.clean_up() == []

    table.append(frame(range(6), meanwhile=clean), 0)
    assert plain_ids("parquet", str(folder)) == list(range(6))


def test_files_of_others_in_the_folder_are_never_touched(table: Table, folder: Path) -> None:
    folder.mkdir()
    theirs = folder / "part-0.parquet.txt"
    theirs.write_text("notes", encoding="utf-8")
    table.append(frame(range(6)), 0)
    table.compact(1_000_000)
    table.clean_up(0)
    assert theirs.read_text(encoding="utf-8") == "notes"


def test_an_object_store_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(BadSetting, match="keep tables as delta or iceberg"):
        open_table("parquet", "s3://bucket/events", app_id="app")


@pytest.mark.parametrize("text", ["", "{", "{}", '{"format": "sordini-manifest-2"}', "[]"])
def test_a_manifest_that_is_damaged_or_of_another_format_is_reported(text: str, table: Table, folder: Path) -> None:
    table.append(frame(range(6)), 0)
    (folder / "_manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(TableError, match=r"_manifest\.json is (damaged|of format)"):
        table.append(frame(range(6, 12)), 1)


@pytest.mark.parametrize("text", ["{", "{}", '{"moves": [["a"]], "removals": []}'])
def test_a_damaged_commit_stops_all_users(text: str, table: Table, folder: Path) -> None:
    table.append(frame(range(6)), 0)
    (folder / "_sordini" / "commit.json").write_text(text, encoding="utf-8")
    with pytest.raises(TableError, match=r"commit\.json is damaged"):
        table.files()


def test_of_two_compactions_of_the_same_files_the_second_changes_nothing(table: Table, folder: Path) -> None:
    table.append(frame(range(6)), 0)
    manifest = read_manifest((folder / "_manifest.json").read_text(encoding="utf-8"), "")
    old = frozenset(each.path for each in manifest.files[:2])
    first = manifest.replaced(old, [Listed("new.parquet", 2, 100)])
    assert first is not None
    assert [each.path for each in first.files] == [*(each.path for each in manifest.files[2:]), "new.parquet"]
    assert first.replaced(old, [Listed("newer.parquet", 2, 100)]) is None
