"""What is particular to Delta and Iceberg tables: their own notes, histories and catalogs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog import load_catalog

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables import TableError, open_table
from sordini.pipeline.tables.delta.delta_lake import DeltaLake
from sordini.pipeline.tables.delta.positions import NOTES_KEY, last_position
from sordini.pipeline.tables.iceberg.location import IcebergLocation
from sordini.pipeline.tables.table import LostPosition
from tests.support.frames import LocalFrame, frame, plain_ids

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


def test_delta_s_own_transaction_notes_the_batch(location: str) -> None:
    open_table("delta", location, app_id="app").append(frame(range(4)), 7, {"t": {0: 4}})
    assert DeltaTable(location).transaction_version("app") == 7


def test_offsets_outlive_many_commits_of_others_in_a_delta_table(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    table.append(frame(range(4)), 7, {"t": {0: 4}})
    for _ in range(12):
        write_deltalake(location, DeltaTable(location).to_pyarrow_table().slice(0, 0), mode="append")
    assert table.last() == open_table("delta", location, app_id="app").last() == (7, {"t": {0: 4}})


def test_the_last_batch_of_a_delta_table_is_reported_while_the_next_one_is_committed(location: str) -> None:
    writer = open_table("delta", location, app_id="app")
    writer.append(frame(range(4)), 7, {"t": {0: 4}})
    looked_at = DeltaTable(location)
    writer.append(frame(range(4, 8)), 8, {"t": {0: 8}})
    files = SubTreeFileSystem(location, LocalFileSystem())
    assert last_position(looked_at, "app", files) == (7, {"t": {0: 4}})


def strangers_clean_up(location: str) -> None:
    """What another program does to a table: it compacts it, makes a checkpoint, and deletes the log before that."""
    DeltaTable(location).optimize.compact()
    for _ in range(12):
        write_deltalake(location, DeltaTable(location).to_pyarrow_table().slice(0, 0), mode="append")
    DeltaTable(location).create_checkpoint()
    commits = sorted(Path(location, "_delta_log").glob("*.json"))
    for commit in commits[:-1]:
        commit.unlink()


def written_by_an_earlier_version(location: str, batch_id: int, offsets: dict[str, dict[str, int]]) -> None:
    """A commit as it was before offsets were kept as transactions: they are in its commitInfo alone."""
    notes = {"app": {"batch": batch_id, "offsets": offsets}}
    commit = CommitProperties(custom_metadata={NOTES_KEY: notes}, app_transactions=[Transaction("app", batch_id)])
    write_deltalake(location, pa.table({"id": [batch_id]}), mode="append", commit_properties=commit)


def ids(*numbers: int) -> Any:
    return LocalFrame([pa.RecordBatch.from_pydict({"id": list(numbers)})])


def test_offsets_outlive_checkpoints_and_a_clean_up_of_the_log_in_a_delta_table(location: str) -> None:
    app, other = (open_table("delta", location, app_id=app_id) for app_id in ("app", "app/more"))
    app.append(frame(range(4)), 6, {"t": {0: 2}, "gone": {3: 7}})
    other.append(frame(range(4)), 2, {"t": {0: 99}, "u-1.x": {1: 5}})
    app.append(frame(range(4)), 7, {"t": {0: 4, 1: 0}})
    strangers_clean_up(location)
    assert open_table("delta", location, app_id="app").last() == (7, {"t": {0: 4, 1: 0}})
    assert open_table("delta", location, app_id="app/more").last() == (2, {"t": {0: 99}, "u-1.x": {1: 5}})
    assert app.append(frame(range(4)), 7, {"t": {0: 4, 1: 0}}).was_there
    app.append(frame(range(4)), 8, {"t": {0: 8, 1: 1}})
    strangers_clean_up(location)
    assert app.last() == (8, {"t": {0: 8, 1: 1}})


def test_a_checkpoint_of_which_a_part_is_missing_is_left_out(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(4)), number, {"t": {0: number}})
    strangers_clean_up(location)
    log = Path(location, "_delta_log")
    write_deltalake(location, DeltaTable(location).to_pyarrow_table().slice(0, 0), mode="append")
    looked_at = DeltaTable(location)
    for version in (looked_at.version() - 1, looked_at.version()):
        half = log / f"{version:020}.checkpoint.0000000001.0000000002.parquet"
        half.write_bytes(b"the other part was never written")
    assert last_position(looked_at, "app", SubTreeFileSystem(location, LocalFileSystem())) == (2, {"t": {0: 2}})


def test_offsets_are_those_of_the_version_that_was_looked_at_also_without_commit_infos(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    table.append(ids(1), 7, {"t": {0: 4}})
    strangers_clean_up(location)
    looked_at = DeltaTable(location)
    table.append(ids(2), 8, {"t": {0: 8}})
    files = SubTreeFileSystem(location, LocalFileSystem())
    assert last_position(looked_at, "app", files) == (7, {"t": {0: 4}})


def test_a_delta_table_of_an_earlier_version_keeps_its_offsets_from_its_next_commit_on(location: str) -> None:
    written_by_an_earlier_version(location, 0, {"t": {"0": 4}})
    table = open_table("delta", location, app_id="app")
    assert table.last() == (0, {"t": {0: 4}})
    table.append(ids(2), 1, {"t": {0: 8}})
    strangers_clean_up(location)
    assert table.last() == (1, {"t": {0: 8}})


def test_offsets_are_not_those_of_a_batch_before_the_last_one(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    table.append(ids(2), 0, {"t": {0: 4}})
    written_by_an_earlier_version(location, 1, {"t": {"0": 8}})
    assert table.last() == (1, {"t": {0: 8}})
    strangers_clean_up(location)
    with pytest.raises(LostPosition, match=r"batch 1 of 'app' is in .*events.*`sordini pipeline resume`"):
        table.last()


def test_a_delta_table_that_lost_its_offsets_is_given_them_again_and_goes_on(location: str) -> None:
    written_by_an_earlier_version(location, 0, {"t": {"0": 4}})
    strangers_clean_up(location)
    table = open_table("delta", location, app_id="app")
    assert isinstance(table, DeltaLake)
    with pytest.raises(LostPosition) as lost:
        table.last()
    table.set_position(lost.value.batch_id + 1, {"t": {0: 4}})
    assert table.last() == (1, {"t": {0: 4}})
    table.append(ids(5), 2, {"t": {0: 9}})
    strangers_clean_up(location)
    assert (table.last(), plain_ids("delta", location)) == ((2, {"t": {0: 9}}), [0, 5])


def test_delta_readers_skip_files_by_the_statistics_and_miss_nothing(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number)
    dataset = DeltaTable(location).to_pyarrow_dataset()
    time = dt.datetime(2026, 11, 22, 0, 5, tzinfo=dt.UTC)
    field = pa.dataset.field
    assert sorted(dataset.to_table(filter=field("time") >= time)["id"].to_pylist()) == [5, 6, 7, 8, 9, 10, 11]
    assert sorted(dataset.to_table(filter=field("site") == "a b/ü%")["id"].to_pylist()) == [2, 5, 8, 11]
    assert sorted(dataset.to_table(filter=field("id") == 6)["id"].to_pylist()) == [6]


def test_what_compaction_replaced_stays_for_readers_of_older_versions(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number)
    version = DeltaTable(location).version()
    table.compact(1_000_000)
    assert table.clean_up(0) == []
    assert DeltaTable(location, version=version).to_pyarrow_table().num_rows == 12


def test_an_iceberg_table_that_was_rolled_back_goes_on_after_the_batch_it_knows(location: str) -> None:
    table = open_table("iceberg", location, app_id="app")
    table.append(frame(range(4)), 0, {"t": {0: 4}})
    table.append(frame(range(4, 8)), 1, {"t": {0: 8}})
    with load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db") as catalog:
        iceberg = catalog.load_table("default.events")
        [first, _] = iceberg.snapshots()
        iceberg.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert table.last() == (0, {"t": {0: 4}})
    assert not table.append(frame(range(4, 8)), 1, {"t": {0: 8}}).was_there
    assert plain_ids("iceberg", location) == list(range(8))


def test_a_batch_is_known_when_its_iceberg_snapshot_has_expired(location: str) -> None:
    table, other = (open_table("iceberg", location, app_id=app_id) for app_id in ("app", "other"))
    table.append(frame(range(4)), 5, {"t": {0: 4}})
    other.append(frame(range(4, 8)), 0)
    other.append(frame(range(8, 10)), 1)
    with load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db") as catalog:
        iceberg = catalog.load_table("default.events")
        iceberg.maintenance.expire_snapshots().by_id(iceberg.snapshots()[0].snapshot_id).commit()
        assert len(iceberg.refresh().snapshots()) == 2
    assert table.last() == (5, {"t": {0: 4}})
    assert table.append(frame(range(4)), 5, {"t": {0: 4}}).was_there


def test_a_batch_that_was_rolled_back_is_not_taken_for_known_when_the_one_before_has_expired(location: str) -> None:
    table, other = (open_table("iceberg", location, app_id=app_id) for app_id in ("app", "other"))
    table.append(frame(range(4)), 0, {"t": {0: 4}})
    other.append(frame(range(4, 8)), 0)
    table.append(frame(range(8, 12)), 1, {"t": {0: 8}})
    with load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db") as catalog:
        iceberg = catalog.load_table("default.events")
        first, theirs, _ = iceberg.snapshots()
        iceberg.manage_snapshots().rollback_to_snapshot(theirs.snapshot_id).commit()
        iceberg.refresh().maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with pytest.raises(TableError, match="was rolled back to before a batch of 'app', and the snapshot of the one"):
        table.append(frame(range(8, 12)), 1, {"t": {0: 8}})
    assert plain_ids("iceberg", location) == list(range(8))


def test_snapshots_that_are_old_enough_expire_with_the_files_that_only_they_name(location: str) -> None:
    table = open_table("iceberg", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number)
    table.compact(1_000_000)
    assert table.clean_up(0) == []
    with load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db") as catalog:
        iceberg = catalog.load_table("default.events")
        with iceberg.transaction() as change:
            change.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    assert table.clean_up() == []
    deleted = [Path(path).parent.name for path in table.clean_up(0)]
    # With each snapshot its list of manifests and its manifest go; the last one's manifest is still used.
    assert (deleted.count("data"), deleted.count("metadata")) == (6, 6)
    assert plain_ids("iceberg", location) == list(range(12))


def test_the_summary_of_an_iceberg_snapshot_has_batch_and_offsets(location: str) -> None:
    open_table("iceberg", location, app_id="app").append(frame(range(4)), 2, {"t": {0: 4}})
    with load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db") as catalog:
        snapshot = catalog.load_table("default.events").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    note = json.loads(snapshot.summary.additional_properties["sordini.writer.app"])
    assert note == {"batch": 2, "offsets": {"t": {"0": 4}}}


def test_an_iceberg_table_can_be_in_any_catalog_under_any_name(location: str, tmp_path: Path) -> None:
    options = {"table": "web.events", "catalog.name": "lake", "catalog.type": "sql"}
    uri = f"sqlite:///{tmp_path}/lake.db"
    table = open_table("iceberg", location, app_id="app", **options, **{"catalog.uri": uri})
    table.append(frame(range(4)), 0)
    with load_catalog("lake", type="sql", uri=uri) as catalog:
        assert catalog.load_table("web.events").scan().to_arrow().num_rows == 4
    assert not Path(location, "catalog.db").exists()
    with pytest.raises(BadSetting, match="refuses the table"):
        open_table("iceberg", location, app_id="app", **{**options, "table": "a.b.c", "catalog.uri": uri}).append(
            frame(range(4)), 0
        )


def test_a_catalog_or_name_that_is_none_is_reported(location: str) -> None:
    with pytest.raises(BadSetting, match="catalog cannot be opened"):
        open_table("iceberg", location, app_id="app", **{"catalog.type": "card-index"}).last()
    with pytest.raises(BadSetting, match=r"namespace\.name, not 'events'"):
        open_table("iceberg", location, app_id="app", table="events").append(frame(range(2)), 0)
    with pytest.raises(BadSetting, match=r"catalog\.\*"):
        open_table("iceberg", "s3://bucket/events", app_id="app").last()
    assert IcebergLocation("/data/my.events").identifier == ("default", "my_events")
