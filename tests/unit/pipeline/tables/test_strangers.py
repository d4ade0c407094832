"""Tables that other programs change between two batches and during one: nothing is lost, twice, or half written."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, TableFeatures
from deltalake.schema import PrimitiveType
from pyiceberg.catalog import load_catalog
from pyiceberg.types import StringType

from sordini.pipeline.tables import TableError, Upsert, open_table
from sordini.pipeline.tables.delta.delta_lake import DeltaLake
from sordini.pipeline.tables.delta.files import Access
from sordini.pipeline.tables.delta.log import CHECKPOINT_COMMITS, LiveFile
from sordini.pipeline.tables.staging import FileSettings
from sordini.pipeline.tables.table import SchemaConflict
from tests.support.frames import LocalFrame, frame, plain_ids, plain_rows

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


def optimize(location: str) -> None:
    DeltaTable(location).optimize.compact()


def z_order(location: str) -> None:
    DeltaTable(location).optimize.z_order(["id"])


def vacuum(location: str) -> None:
    # Without its safeguard a vacuum deletes files that are being written, too: `full` is what a careful stranger avoids.
    DeltaTable(location).vacuum(0, dry_run=False, enforce_retention_duration=False)


def clean_up_log(location: str) -> None:
    DeltaTable(location).create_checkpoint()
    for commit in sorted(Path(location, "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()


def add_column(location: str) -> None:
    DeltaTable(location).alter.add_columns([Field("theirs", PrimitiveType("string"))])


def iceberg(location: str) -> Iterator[Any]:
    with load_catalog("sordini", type="sql", uri=f"sqlite:///{location}/catalog.db") as catalog:
        yield catalog.load_table("default.events")


def add_iceberg_column(location: str) -> None:
    for table in iceberg(location):
        with table.update_schema() as update:
            update.add_column("theirs", StringType())


def rewrite_iceberg(location: str) -> None:
    for table in iceberg(location):
        table.overwrite(table.scan().to_arrow())


def expire_iceberg(location: str) -> None:
    for table in iceberg(location):
        current = table.current_snapshot().snapshot_id
        old = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != current]
        table.maintenance.expire_snapshots().by_ids(old).commit()


DEEDS: list[tuple[str, Callable[[str], None]]] = [
    ("delta", optimize),
    ("delta", z_order),
    ("delta", vacuum),
    ("delta", clean_up_log),
    ("delta", add_column),
    ("iceberg", add_iceberg_column),
    ("iceberg", rewrite_iceberg),
    ("iceberg", expire_iceberg),
]


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


@pytest.mark.parametrize(("kind", "deed"), DEEDS)
def test_a_stranger_s_maintenance_between_batches_and_during_one_loses_and_repeats_nothing(
    kind: str, deed: Callable[[str], None], location: str
) -> None:
    table = open_table(kind, location, app_id="app")
    for number in range(2):
        table.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    deed(location)
    assert table.append(frame(range(4, 8)), 1, {"t": {0: 8}}).was_there
    table.append(frame(range(8, 12)), 2, {"t": {0: 12}})
    during = frame(range(12, 16), meanwhile=lambda: None if deed.__name__.startswith("add_") else deed(location))
    table.append(during, 3, {"t": {0: 16}})
    assert plain_ids(kind, location) == list(range(16))
    assert open_table(kind, location, app_id="app").last() == (3, {"t": {0: 16}})


@pytest.mark.parametrize(("kind", "deed"), [("delta", add_column), ("iceberg", add_iceberg_column)])
def test_a_column_that_a_stranger_adds_during_a_batch_stays_and_is_null_in_its_rows(
    kind: str, deed: Callable[[str], None], location: str
) -> None:
    table = open_table(kind, location, app_id="app")
    table.append(frame(range(4)), 0)
    table.append(frame(range(4, 8), meanwhile=lambda: deed(location), ours=1), 1)
    schema = table.schema()
    assert schema is not None
    assert {"theirs", "ours"} <= set(schema.names)
    assert plain_ids(kind, location) == list(range(8))


def test_a_column_that_a_stranger_makes_another_type_during_a_batch_stops_it_with_nothing_half_written(
    location: str,
) -> None:
    table = open_table("delta", location, app_id="app")
    table.append(frame(range(4)), 0)

    def theirs() -> None:
        DeltaTable(location).alter.add_columns([Field("extra", PrimitiveType("integer"))])

    with pytest.raises(SchemaConflict, match="column 'extra' is string in the rows and int32 in the table"):
        table.append(frame(range(4, 8), theirs, extra="x"), 1)
    assert (plain_ids("delta", location), table.last()) == (list(range(4)), (0, {}))


def test_a_restored_delta_table_continues_after_the_batch_that_it_has(location: str) -> None:
    app, other = (open_table("delta", location, app_id=name) for name in ("app", "other"))
    for number in range(3):
        app.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    DeltaTable(location).restore(0)
    other.append(frame(range(100, 102)), 0, {"u": {0: 2}})
    assert app.last() == (0, {"t": {0: 4}})
    assert not app.append(frame(range(4, 8)), 1, {"t": {0: 8}}).was_there
    assert app.last() == open_table("delta", location, app_id="app").last() == (1, {"t": {0: 8}})
    assert app.append(frame(range(4, 8)), 1, {"t": {0: 8}}).was_there
    app.append(frame(range(8, 12)), 2, {"t": {0: 12}})
    assert (app.last(), other.last()) == ((2, {"t": {0: 12}}), (0, {"u": {0: 2}}))
    assert plain_ids("delta", location) == [*range(12), 100, 101]


def test_the_first_batch_after_a_restore_is_known_where_the_log_has_the_former_one_of_its_number_too(
    location: str,
) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    DeltaTable(location).restore(1)
    table.append(frame(range(8, 10)), 2, {"t": {0: 10}})
    assert table.last() == open_table("delta", location, app_id="app").last() == (2, {"t": {0: 10}})
    assert table.append(frame(range(8, 10)), 2, {"t": {0: 10}}).was_there
    assert plain_ids("delta", location) == list(range(10))


def test_a_delta_table_that_is_restored_to_a_time_continues_after_the_batch_that_it_had_then(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    for version, hour in enumerate((10, 12, 14)):
        then = dt.datetime(2026, 11, 22, hour, tzinfo=dt.UTC).timestamp()
        os.utime(Path(location, "_delta_log", f"{version:020}.json"), (then, then))
    DeltaTable(location).restore(dt.datetime(2026, 11, 22, 13, tzinfo=dt.UTC))
    assert plain_ids("delta", location) == list(range(8))
    assert table.last() == (1, {"t": {0: 8}})
    assert not table.append(frame(range(8, 12)), 2, {"t": {0: 12}}).was_there
    assert plain_ids("delta", location) == list(range(12))


def test_a_delta_table_that_spark_restored_to_a_time_is_one_sentence(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(2):
        table.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    DeltaTable(location).restore(0)
    commit = Path(location, "_delta_log", f"{2:020}.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["operationParameters"] = {"version": None, "timestamp": "2026-11-22 13:00:00"}
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    with pytest.raises(TableError, match=r"restored to a time after batch 1 of 'app', and its log does not say"):
        table.append(frame(range(8, 12)), 2, {"t": {0: 12}})
    DeltaTable(location).restore(0)
    assert table.last() == (0, {"t": {0: 4}})


@pytest.mark.parametrize("upserts", [False, True])
def test_a_property_that_deltalake_sets_stops_no_job_of_a_delta_table(upserts: bool, location: str) -> None:
    table = open_table("delta", location, app_id="app")

    def write(number: int) -> None:
        ids = range(number * 4, number * 4 + 4)
        if upserts:
            table.upsert(frame(ids, _deleted=False), number, Upsert(("id",)))
        else:
            table.append(frame(ids), number)

    write(0)
    # This also names features in the protocol of which the table uses nothing, variants among them.
    DeltaTable(location).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    write(1)
    assert sorted(row["id"] for batch in table.batches(["id"]) for row in batch.to_pylist()) == list(range(8))


def test_a_delta_table_that_keeps_its_log_loses_none_of_it_to_checkpoints_of_upserts(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    table.upsert(frame([0, 1], _deleted=False), 0, Upsert(("id",)))
    keeps = {"delta.enableExpiredLogCleanup": "false", "delta.logRetentionDuration": "interval 0 seconds"}
    DeltaTable(location).alter.set_table_properties(keeps)
    for number in range(1, CHECKPOINT_COMMITS + 1):
        table.upsert(frame([0, number], _deleted=False), number, Upsert(("id",)))
    log = Path(location, "_delta_log")
    assert len(list(log.glob("*.checkpoint.parquet"))) == 1
    assert len(list(log.glob("*.json"))) == CHECKPOINT_COMMITS + 2


def test_a_delta_table_that_is_restored_during_a_batch_is_read_again_and_the_batch_is_refused(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    with pytest.raises(TableError, match="was restored or rolled back"):
        table.append(frame(range(12, 16), lambda: DeltaTable(location).restore(0)), 3, {"t": {0: 16}})
    assert (plain_ids("delta", location), table.last()) == (list(range(4)), (0, {"t": {0: 4}}))


def test_a_restored_delta_table_whose_log_of_that_version_is_gone_is_one_sentence(location: str) -> None:
    table = open_table("delta", location, app_id="app")
    for number in range(3):
        table.append(frame(range(number * 4, number * 4 + 4)), number, {"t": {0: number * 4 + 4}})
    theirs = DeltaTable(location)
    theirs.restore(0)
    DeltaTable(location).create_checkpoint()
    for version in range(2):
        Path(location, "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(TableError, match=r"was restored to version 0 after batch 2 of 'app', and the log of"):
        table.append(frame(range(12, 16)), 3, {"t": {0: 16}})
    assert plain_ids("delta", location) == list(range(4))


def constrain(location: str) -> None:
    DeltaTable(location).alter.add_constraint({"positive": "id > 0"})


def generate(location: str) -> None:
    log = Path(location, "_delta_log", f"{0:020}.json")
    plain = r"\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{"
    text = log.read_text()
    assert plain in text
    log.write_text(text.replace(plain, plain + r"\"delta.generationExpression\":\"1 + 1\""))


def fill(location: str) -> None:
    log = Path(location, "_delta_log", f"{0:020}.json")
    log.write_text(
        log.read_text().replace(
            r"\"site\",\"type\":\"string\",\"nullable\":true", r"\"site\",\"type\":\"string\",\"nullable\":false"
        )
    )


@pytest.mark.parametrize(
    ("deed", "reported"),
    [
        (constrain, r"asks its writers for what is not checked here \(constraint positive\)"),
        (generate, r"asks its writers for what is not checked here \(delta.generationExpression of id\)"),
        (fill, "rows of the batch have no value in 'site', which is not null in"),
    ],
)
def test_rows_are_refused_by_a_delta_table_that_asks_for_more_than_their_columns(
    deed: Callable[[str], None], reported: str, location: str
) -> None:
    open_table("delta", location, app_id="app").append(frame(range(1, 3)), 0)
    deed(location)
    with pytest.raises(TableError, match=reported):
        open_table("delta", location, app_id="app").append(frame([-3, 0, 3, 6]), 1)
    assert plain_ids("delta", location) == [1, 2]


def test_files_that_were_staged_before_another_writer_widened_a_column_are_staged_again(location: str) -> None:
    wide = pa.schema({"id": pa.int64(), "n": pa.int64()})
    narrow = wide.set(1, pa.field("n", pa.int32()))
    one, other = (open_table("delta", location, app_id=name) for name in ("one", "other"))

    def rows(number: int, columns: pa.Schema, meanwhile: Callable[[], object] | None = None) -> Any:
        return LocalFrame([pa.RecordBatch.from_pylist([{"id": number, "n": number}], columns)], meanwhile=meanwhile)

    one.append(rows(0, narrow), 0)
    committed = []
    one.append(rows(1, narrow, lambda: other.append(rows(2, wide), 0)), 1, before_commit=lambda: committed.append(1))
    assert sorted(plain_rows("delta", location).to_pylist(), key=lambda row: row["id"]) == [
        {"id": number, "n": number} for number in range(3)
    ]
    assert {pq.read_schema(path).field("n").type for path in one.files()} == {pa.int64()}
    # Nothing of the first attempt is left.
    assert len(list(Path(location).rglob("part-*.parquet"))) == len(one.files()) + 1
    assert committed == [1]


class Overtaken(DeltaLake):
    """A compaction that another writer overtakes before the files are listed."""

    meanwhile: Callable[[], object] | None = None

    def live_files(self) -> Mapping[str, LiveFile]:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().live_files()


def test_compaction_keeps_a_column_that_is_added_just_before_it(location: str) -> None:
    how = Upsert(("id",))
    writer = open_table("delta", location, app_id="app")
    compactor = Overtaken(location, "app", (), FileSettings(), Access())
    writer.upsert(frame([0, 1], _deleted=False), 0, how)
    compactor.meanwhile = lambda: writer.upsert(frame([2, 3], _deleted=False, extra="x"), 1, how)
    assert compactor.compact(1_000_000).files_after == 1
    rows = [row for batch in writer.batches(["id", "extra"]) for row in batch.to_pylist()]
    assert {row["id"]: row["extra"] for row in rows} == {0: None, 1: None, 2: "x", 3: "x"}


@pytest.mark.parametrize("again", ["true", "TRUE"])
def test_a_delta_table_whose_writers_may_make_no_deletion_vectors_takes_no_upserts_until_they_may(
    location: str, again: str
) -> None:
    table, how = open_table("delta", location, app_id="app"), Upsert(("id",))
    table.upsert(frame(range(4), _deleted=False), 0, how)
    DeltaTable(location).alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    before = sorted(Path(location).rglob("*"))
    with pytest.raises(TableError, match="lets its writers make no deletion vectors, which upserts need: set delta"):
        table.upsert(frame(range(6), _deleted=False), 1, how)
    assert sorted(Path(location).rglob("*")) == before
    DeltaTable(location).alter.set_table_properties({"delta.enableDeletionVectors": again})
    table.upsert(frame(range(6), _deleted=False), 1, how)
    assert sorted(row["id"] for batch in table.batches(["id"]) for row in batch.to_pylist()) == list(range(6))


UNUSED = [
    TableFeatures.ChangeDataFeed,
    TableFeatures.CheckConstraints,
    TableFeatures.GeneratedColumns,
    TableFeatures.IdentityColumns,
]


@pytest.mark.parametrize("feature", UNUSED, ids=str)
def test_a_feature_of_a_delta_table_that_is_not_in_use_stops_no_upsert(feature: TableFeatures, location: str) -> None:
    table, how = open_table("delta", location, app_id="app"), Upsert(("id",))
    table.upsert(frame(range(4), _deleted=False), 0, how)
    DeltaTable(location).alter.add_feature([feature])
    table.upsert(frame(range(6), _deleted=False), 1, how)
    assert sorted(row["id"] for batch in table.batches(["id"]) for row in batch.to_pylist()) == list(range(6))


@pytest.mark.parametrize(
    ("feature", "properties", "reported"),
    [
        (TableFeatures.ChangeDataFeed, {"delta.enableChangeDataFeed": "true"}, "for changeDataFeed, which upserts"),
        (TableFeatures.ChangeDataFeed, {"delta.enableChangeDataFeed": "TRUE"}, "for changeDataFeed, which upserts"),
        (TableFeatures.AppendOnly, {"delta.appendOnly": "True"}, "for delta.appendOnly, which upserts"),
        (TableFeatures.CheckConstraints, {"delta.constraints.positive": "id > 0"}, r"\(constraint positive\)"),
        (TableFeatures.RowTracking, {}, "for domainMetadata, rowTracking, which upserts"),
    ],
)
def test_one_that_is_in_use_stops_an_upsert_before_anything_is_written(
    feature: TableFeatures, properties: Mapping[str, str], reported: str, location: str
) -> None:
    table, how = open_table("delta", location, app_id="app"), Upsert(("id",))
    table.upsert(frame(range(1, 4), _deleted=False), 0, how)
    log = Path(location, "_delta_log", f"{0:020}.json")
    text = log.read_text()
    for name, value in properties.items():
        text = text.replace('"configuration": {', f'"configuration": {{"{name}": "{value}", ')
    log.write_text(text)
    features = [feature, *([TableFeatures.DomainMetadata] if feature == TableFeatures.RowTracking else [])]
    DeltaTable(location).alter.add_feature(features)
    before = sorted(Path(location).rglob("*"))
    table = open_table("delta", location, app_id="app")
    with pytest.raises(TableError, match=reported):
        table.upsert(frame(range(6), _deleted=False), 1, how)
    assert sorted(Path(location).rglob("*")) == before
