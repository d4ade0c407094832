"""Tables of upserts that Spark changes through Delta's or Iceberg's own connector, between two batches and during one.

The next batch finds what was done, or it stops with one sentence and has written nothing. docs/tables.md lists the
operations. deltalake and pyiceberg do the like in tests/unit/pipeline/tables/test_strangers_and_upserts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordini.pipeline.tables import TableError
from sordini.pipeline.tables.delta.log import CHECKPOINT_COMMITS
from tests.pipeline.table_engines import Engine, started
from tests.pipeline.upserted import Known, Upserted, filled
from tests.support.frames import KINDS

pytestmark = [
    pytest.mark.long,
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@dataclass(frozen=True)
class Deed:
    """What Spark does to a table, in which {table} is its name."""

    name: str
    statements: tuple[str, ...]
    changes: Callable[[Known], object] = lambda known: None
    forgets: bool = False
    """Whether a process that opens the table later knows no deletions of before."""


def inserted(known: Known) -> None:
    known[77] = (77, 3, "theirs")


def updated(known: Known) -> None:
    known[4] = (4, 9, "theirs")


def deleted(known: Known) -> None:
    del known[5]


def merged(known: Known) -> None:
    inserted(known), updated(known), deleted(known)


def emptied(known: Known) -> None:
    for key in [key for key, change in known.items() if change[2] is not None]:
        del known[key]


INSERT = "INSERT INTO {table} (id, at, name) VALUES (77, 3, 'theirs')"
UPDATE = "UPDATE {table} SET at = 9, name = 'theirs' WHERE id = 4"
DELETE = "DELETE FROM {table} WHERE id = 5"
MERGE = """
    MERGE INTO {table} AS t
    USING (SELECT * FROM VALUES (4L, 9L, 'theirs'), (5L, 9L, NULL), (77L, 3L, 'theirs') AS s (id, at, name)) AS s
    ON t.id = s.id
    WHEN MATCHED AND s.name IS NULL THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
"""
ROWS = [
    Deed("insert", (INSERT,), inserted),
    Deed("update", (UPDATE,), updated),
    Deed("delete", (DELETE,), deleted),
    Deed("merge", (MERGE,), merged),
    Deed("delete all", ("DELETE FROM {table}",), emptied, forgets=True),
    Deed("overwrite", ("INSERT OVERWRITE {table} SELECT * FROM {table}",), forgets=True),
]


def merge_on_read(deed: Deed) -> Deed:
    """As the deed, by position deletes instead of rewritten files."""
    modes = ", ".join(f"'write.{name}.mode' = 'merge-on-read'" for name in ("delete", "update", "merge"))
    set_modes = f"ALTER TABLE {{table}} SET TBLPROPERTIES ({modes})"
    return Deed(f"{deed.name} on read", (set_modes, *deed.statements), deed.changes)


def called(procedure: str, *more: str) -> tuple[str]:
    """A call of a procedure of Iceberg's."""
    arguments = ", ".join(["table => 'default.events'", *more])
    return (f"CALL sordini.system.{procedure}({arguments})",)


ALL_FILES = "options => map('rewrite-all', 'true')"
DEEDS = {
    "delta": [
        *ROWS,
        Deed("optimize", ("OPTIMIZE {table}",), forgets=True),
        Deed("z-order", ("OPTIMIZE {table} ZORDER BY (at)",), forgets=True),
        Deed("purge", ("REORG TABLE {table} APPLY (PURGE)",), forgets=True),
        Deed("vacuum", ("VACUUM {table}", "VACUUM {table} LITE")),
        Deed("history", ("DESCRIBE HISTORY {table}", "DESCRIBE DETAIL {table}")),
        Deed("add column", ("ALTER TABLE {table} ADD COLUMN (theirs STRING FIRST)",)),
        Deed("move column", ("ALTER TABLE {table} ALTER COLUMN name FIRST",)),
        Deed("comments", ("ALTER TABLE {table} ALTER COLUMN name COMMENT 'a name'", "COMMENT ON TABLE {table} IS 'x'")),
        Deed("v2 checkpoints", ("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",)),
        Deed("checkpoints", ("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')",)),
    ],
    "iceberg": [
        *ROWS,
        *map(merge_on_read, ROWS[:4]),
        Deed("rewrite data files", called("rewrite_data_files", ALL_FILES), forgets=True),
        Deed("sort", called("rewrite_data_files", ALL_FILES, "strategy => 'sort'", "sort_order => 'at'"), forgets=True),
        Deed("rewrite position deletes", called("rewrite_position_delete_files", ALL_FILES)),
        Deed("rewrite manifests", called("rewrite_manifests")),
        Deed("expire", called("expire_snapshots", "older_than => TIMESTAMP '2100-01-01'", "retain_last => 1")),
        Deed("orphans", called("remove_orphan_files")),
        Deed("add column", ("ALTER TABLE {table} ADD COLUMN theirs STRING FIRST",)),
        Deed("move column", ("ALTER TABLE {table} ALTER COLUMN name FIRST",)),
        Deed("partition", ("ALTER TABLE {table} ADD PARTITION FIELD name",)),
        Deed("sort order", ("ALTER TABLE {table} WRITE ORDERED BY id",)),
        Deed("tags", ("ALTER TABLE {table} CREATE TAG t", "ALTER TABLE {table} CREATE BRANCH b")),
        Deed("metadata", tuple(f"SELECT * FROM {{table}}.{of}" for of in ("history", "files", "position_deletes"))),
    ],
}
EACH = [pytest.param(kind, deed, id=f"{kind}-{deed.name}") for kind in KINDS for deed in DEEDS[kind]]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Engine]]:
    """One engine of a kind for all tests here, as it takes long to start; started for the first test that needs it."""
    running = {}
    log = tmp_path_factory.mktemp("engines")
    with ExitStack() as stack:

        def engine(kind: str) -> Engine:
            if kind not in running:
                running[kind] = stack.enter_context(started(kind, log / kind))
            return running[kind]

        yield engine


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "events"


def check(spark: Engine, made: Upserted) -> None:
    """All readers see what the table must have."""
    assert [tuple(row) for row in spark.rows(made.location)] == made.rows
    made.check()


def do(spark: Engine, made: Upserted, deed: Deed) -> None:
    for statement in deed.statements:
        spark.sql(made.location, statement)
    deed.changes(made.known)


@pytest.mark.parametrize(("kind", "deed"), EACH)
def test_what_spark_does_between_two_batches_is_found_by_the_next_ones(
    kind: str, deed: Deed, engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines(kind), filled(kind, location)
    do(spark, made, deed)
    check(spark, made)
    remembered = {key for key, change in made.known.items() if change[2] is None}
    made.upsert((0, 5, "m0"), (4, 5, "m4"), (5, 5, "m5"), (6, 5, None), (77, 5, "m77"), (3, 1, "late"), (2, 1, "late"))
    check(spark, made)
    made.reopen()
    if deed.forgets:
        made.known = {key: change for key, change in made.known.items() if change[2] or key not in remembered}
    made.upsert((1, 6, "z"), (7, 6, None), (9, 4, "late"), (6, 4, "late"), (77, 6, "zz"))
    check(spark, made)


@pytest.mark.parametrize(("kind", "deed"), EACH)
def test_what_spark_does_before_the_commit_of_a_batch_is_compared_with_it(
    kind: str, deed: Deed, engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines(kind), filled(kind, location)
    changes = [(0, 5, "m0"), (4, 5, "m4"), (5, 5, "m5"), (77, 5, "m77"), (3, 1, "late"), (2, 1, "late"), (6, 5, None)]
    made.upsert(*changes, before_commit=partial(do, spark, made, deed))
    check(spark, made)
    made.upsert((6, 4, "late"), (4, 10, "m4"), (0, 6, None))
    check(spark, made)


@dataclass(frozen=True)
class Refused:
    """What Spark does to a table that takes no upserts from then on, the error, and what makes it take them again."""

    name: str
    statements: tuple[str, ...]
    error: str
    undone: tuple[str, ...] = ()
    columns: str = ""
    """If it does not stop the batch before whose commit it happens: the columns from then on."""


def with_property(name: str, value: str = "true") -> str:
    return f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{name}' = '{value}')"


ASKS = "asks its writers for"
RENAME = "ALTER TABLE {table} RENAME COLUMN name TO label"
REFUSED = {
    "delta": [
        Refused(
            "change data feed",
            (with_property("delta.enableChangeDataFeed"),),
            f"{ASKS} changeDataFeed, which",
            (with_property("delta.enableChangeDataFeed", "false"),),
        ),
        Refused(
            "commit times",
            (with_property("delta.enableInCommitTimestamps"),),
            f"{ASKS} inCommitTimestamp, which",
            (with_property("delta.enableInCommitTimestamps", "false"),),
        ),
        Refused(
            "constraint",
            ("ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id >= 0)",),
            rf"{ASKS} what is not checked here \(constraint positive\)",
            ("ALTER TABLE {table} DROP CONSTRAINT positive",),
        ),
        Refused(
            "no vectors",
            (with_property("delta.enableDeletionVectors", "false"),),
            "lets its writers make no deletion vectors",
            (with_property("delta.enableDeletionVectors"),),
        ),
        Refused(
            "append only",
            (with_property("delta.appendOnly"),),
            f"{ASKS} delta.appendOnly, which",
            (with_property("delta.appendOnly", "false"),),
        ),
        Refused(
            "row tracking", (with_property("delta.enableRowTracking"),), f"{ASKS} domainMetadata, rowTracking, which"
        ),
        Refused("clustering", ("ALTER TABLE {table} CLUSTER BY (id)",), f"{ASKS} clustering, domainMetadata, which"),
        Refused("renamed", (with_property("delta.columnMapping.mode", "name"), RENAME), f"{ASKS} columnMapping, which"),
        Refused(
            "wider type",
            (
                "ALTER TABLE {table} ADD COLUMN n INT",
                with_property("delta.enableTypeWidening"),
                "ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT",
            ),
            f"{ASKS} typeWidening, which",
        ),
    ],
    "iceberg": [
        Refused(
            "version 3", (with_property("format-version", "3"), DELETE), "has Iceberg's format version 3: upserts need"
        ),
        Refused(
            "version 3 alone", (with_property("format-version", "3"),), "has Iceberg's format version 3: upserts need"
        ),
        Refused(
            "renamed",
            (RENAME,),
            "column 'name' of the rows was renamed to 'label' in ",
            ("ALTER TABLE {table} RENAME COLUMN label TO name",),
            columns="id, at, label",
        ),
        Refused(
            "buckets",
            ("ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)",),
            "only columns as they are can be written",
            ("ALTER TABLE {table} DROP PARTITION FIELD bucket(4, id)",),
            columns="id, at, name",
        ),
    ],
}
EACH_REFUSED = [pytest.param(kind, deed, id=f"{kind}-{deed.name}") for kind in KINDS for deed in REFUSED[kind]]
BATCH = ((0, 5, "m0"), (4, 5, None), (78, 5, "m78"))


def check_refused(made: Upserted, error: str) -> None:
    """The next batch is refused with one sentence, by this process and by a new one, and nothing is written."""
    before = made.files()
    for _ in range(2):
        with pytest.raises(TableError, match=error) as refused:
            made.upsert(*BATCH)
        assert "\n" not in str(refused.value)
        assert made.files() == before
        made.reopen()
    assert made.table.last() == (made.batches - 1, {"t": {0: made.batches}})


@pytest.mark.parametrize(("kind", "deed"), EACH_REFUSED)
def test_a_table_that_spark_has_made_another_is_refused_in_one_sentence_until_that_is_undone(
    kind: str, deed: Refused, engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines(kind), filled(kind, location)
    for statement in deed.statements:
        spark.sql(made.location, statement)
    check_refused(made, deed.error)
    if not deed.undone:
        return
    for statement in deed.undone:
        spark.sql(made.location, statement)
    check(spark, made)
    made.upsert(*BATCH)
    check(spark, made)


@pytest.mark.parametrize(("kind", "deed"), EACH_REFUSED)
def test_a_batch_before_whose_commit_spark_does_that_is_refused_or_the_last_one(
    kind: str, deed: Refused, engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines(kind), filled(kind, location)

    def theirs() -> None:
        for statement in deed.statements:
            spark.sql(made.location, statement)

    if deed.columns:
        made.upsert(*BATCH, before_commit=theirs)
        assert [tuple(row) for row in spark.rows(made.location, deed.columns)] == made.rows
        check_refused(made, deed.error)
        return
    with pytest.raises(TableError, match=deed.error) as refused:
        made.upsert(*BATCH, before_commit=theirs)
    assert "\n" not in str(refused.value)
    assert made.table.last() == (2, {"t": {0: 3}})
    assert 78 not in {row[0] for row in spark.rows(made.location, "id, at")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_spark_takes_back_to_an_earlier_version_continues_after_the_batch_that_it_has(
    kind: str, engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines(kind), Upserted(kind, location)
    made.upsert((0, 1, "n0"), (1, 1, "n1"), (2, 3, None))
    first = dict(made.known)
    made.upsert((0, 2, "new"), (1, 2, None), (2, 4, "back"))
    if kind == "delta":
        restore = "RESTORE TABLE {table} TO VERSION AS OF 0"
    else:
        oldest = spark.sql(made.location, "SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at")[0][0]
        restore = f"CALL sordini.system.rollback_to_snapshot('default.events', {oldest})"
    spark.sql(made.location, restore)
    made.known, made.batches = first, 1
    check(spark, made)
    assert made.table.last() == (0, {"t": {0: 1}})
    made.upsert((0, 1, "again"), (2, 2, "late"), (1, 2, "m1"))
    check(spark, made)
    made.upsert((0, 0, "late"), (1, 3, None), (2, 3, "m2"))
    check(spark, made)
    with pytest.raises(TableError, match="was restored or rolled back while a batch was written"):
        made.upsert((5, 5, "m5"), before_commit=lambda: spark.sql(made.location, restore))


def test_a_delta_table_that_spark_restores_to_a_time_is_refused_until_it_is_restored_to_a_version(
    engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines("delta"), filled("delta", location)
    then = {row[0]: row[1] for row in spark.sql(made.location, "DESCRIBE HISTORY {table}")}[1]
    spark.sql(made.location, f"RESTORE TABLE {{table}} TO TIMESTAMP AS OF '{then}'")
    spark.sql(made.location, INSERT)
    with pytest.raises(TableError, match="was restored to a time after batch 2 of 'app', and its log does not say"):
        made.upsert(*BATCH)
    spark.sql(made.location, "RESTORE TABLE {table} TO VERSION AS OF 2")
    made.upsert(*BATCH)
    check(spark, made)


def test_a_delta_table_without_the_feature_of_deletion_vectors_is_refused(
    engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines("delta"), filled("delta", location)
    spark.sql(made.location, "ALTER TABLE {table} DROP FEATURE deletionVectors")
    assert [tuple(row) for row in spark.rows(made.location)] == made.rows
    check_refused(made, "lets its writers make no deletion vectors|asks its writers for")


def test_a_vacuum_of_spark_that_keeps_nothing_is_refused_by_spark_and_one_that_does_keeps_what_is_read(
    engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines("delta"), filled("delta", location)
    with pytest.raises(AssertionError, match=r"retention|RETENTION"):
        spark.sql(made.location, "VACUUM {table} RETAIN 0 HOURS")
    made.upsert(*BATCH, before_commit=lambda: spark.sql(made.location, "VACUUM {table}"))
    check(spark, made)


def test_checkpoints_of_spark_and_of_ours_follow_each_other(engines: Callable[[str], Engine], location: Path) -> None:
    spark, made = engines("delta"), filled("delta", location)
    spark.sql(made.location, with_property("delta.checkpointPolicy", "v2"))
    for number in range(4, CHECKPOINT_COMMITS + 3):
        made.upsert((number, number, f"n{number}"), (number - 2, number, None))
        if number % 20 == 0:
            # Spark makes one with its tenth commit.
            for _ in range(10):
                spark.sql(made.location, "UPDATE {table} SET name = name WHERE id = 0")
            made.reopen()
    names = sorted(path.name for path in (location / "_delta_log").glob("*.checkpoint.*"))
    assert len(names) >= 2, names
    check(spark, made)
    made.reopen()
    made.upsert((2, 1, "late"), (0, 99, "m0"))
    check(spark, made)


def test_numbers_that_spark_has_made_wider_in_an_iceberg_table_are_written_as_such(
    engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines("iceberg"), filled("iceberg", location)
    made.upsert((0, 5, "m0"), n=1)
    spark.sql(made.location, "ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT")
    spark.sql(made.location, f"UPDATE {{table}} SET n = {2**40} WHERE id = 1")
    made.upsert((4, 5, "m4"), n=2)
    check(spark, made)
    assert spark.sql(made.location, "SELECT id, n FROM {table} WHERE n IS NOT NULL ORDER BY id") == [
        [0, 1],
        [1, 2**40],
        [4, 2],
    ]


def test_an_iceberg_table_with_equality_deletes_is_refused_in_one_sentence(
    engines: Callable[[str], Engine], location: Path
) -> None:
    spark, made = engines("iceberg"), filled("iceberg", location)
    keys = location / "data" / "equal.parquet"
    column = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([5], pa.int64())], schema=pa.schema([column])), keys)
    spark.delete_equal(made.location, keys, field=1, rows=1)
    assert [tuple(row) for row in spark.rows(made.location)] == [row for row in made.rows if row[0] != 5]
    check_refused(made, "has equality deletes, which pyiceberg does not read")


def test_a_stream_of_spark_reads_new_keys_of_a_delta_table_and_leaves_changes_out_as_asked(
    engines: Callable[[str], Engine], location: Path, tmp_path: Path
) -> None:
    spark, made = engines("delta"), filled("delta", location)
    plain, skips = tmp_path / "plain", tmp_path / "skips"
    assert sorted(map(tuple, spark.stream(made.location, plain))) == made.rows
    assert sorted(map(tuple, spark.stream(made.location, skips, skipChangeCommits="true"))) == made.rows
    made.upsert((50, 1, "n50"), (51, 1, "n51"))
    assert sorted(spark.stream(made.location, plain)) == [[50, 1, "n50"], [51, 1, "n51"]]
    made.upsert((50, 2, "newer"), (0, 5, None), (52, 1, "n52"))
    made.upsert((53, 1, "n53"))
    with pytest.raises(AssertionError, match="skipChangeCommits"):
        spark.stream(made.location, plain)
    found = spark.stream(made.location, skips, skipChangeCommits="true")
    assert sorted(found) == [[50, 1, "n50"], [51, 1, "n51"], [53, 1, "n53"]]


def test_a_stream_of_spark_reads_new_keys_of_an_iceberg_table_and_leaves_changes_out_as_asked(
    engines: Callable[[str], Engine], location: Path, tmp_path: Path
) -> None:
    spark, made = engines("iceberg"), Upserted("iceberg", location)
    plain, skips = tmp_path / "plain", tmp_path / "skips"
    made.upsert((0, 1, "n0"), (1, 1, "n1"))
    skipping = {"streaming-skip-overwrite-snapshots": "true"}
    assert sorted(spark.stream(made.location, plain)) == [[0, 1, "n0"], [1, 1, "n1"]]
    assert sorted(spark.stream(made.location, skips, **skipping)) == [[0, 1, "n0"], [1, 1, "n1"]]
    made.upsert((50, 1, "n50"))
    assert spark.stream(made.location, plain) == [[50, 1, "n50"]]
    made.upsert((50, 2, "newer"), (0, 5, None), (52, 1, "n52"))
    made.upsert((53, 1, "n53"))
    with pytest.raises(AssertionError, match="overwrite"):
        spark.stream(made.location, plain)
    assert sorted(spark.stream(made.location, skips, **skipping)) == [[50, 1, "n50"], [53, 1, "n53"]]
