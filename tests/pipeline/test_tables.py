"""Tables written by Spark from a live broker, and read back by Spark and by readers that know nothing of us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sordini.pipeline.tables import Table, open_table
from tests.outside.needs import ROOT
from tests.pipeline.sent import KEEP, fill
from tests.pipeline.topics import Place
from tests.support.frames import KINDS, plain_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS_MAX = 240
RECORDS = 300

SOME = [kind if kind == "delta" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
"""A plain run has one kind of table where the test is of Spark's part."""

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


class Died(Exception):
    """Stands for the end of a process."""


def offsets_of(rows: list[dict[str, int]]) -> Counter[tuple[int, int]]:
    return Counter((row["partition"], row["offset"]) for row in rows)


def all_once(partitions: int = 2) -> Counter[tuple[int, int]]:
    return Counter(divmod(number, RECORDS // partitions) for number in range(RECORDS))


def stream(spark: SparkSession, options: Mapping[str, str], checkpoint: Path, write: Callable[..., None]) -> None:
    # Spark's own source: ours starts a Python process, for which Spark waits ten seconds, busy machine or not.
    reader = spark.readStream.format("kafka").options(**options).load()
    writer = reader.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.parametrize("kind", SOME)
def test_a_stream_that_dies_between_a_commit_and_its_checkpoint_has_every_record_once(
    kind: str, spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, RECORDS)
    options = {
        "kafka.bootstrap.servers": place.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(RECORDS // 3),
    }
    location = str(tmp_path / "events")
    table = open_table(kind, location, app_id="stream")
    there: list[tuple[int, bool]] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        written = table.append(frame, batch_id)
        there.append((batch_id, written.was_there))
        if there == [(0, False), (1, False)]:
            raise Died

    with pytest.raises(Exception, match="Died"):
        stream(spark, options, tmp_path / "checkpoint", write)
    stream(spark, options, tmp_path / "checkpoint", write)
    assert there[:3] == [(0, False), (1, False), (1, True)]
    rows = [row.asDict() for row in table.read(spark).select("partition", "offset").collect()]
    assert offsets_of(rows) == offsets_of(plain_rows(kind, location).to_pylist()) == all_once()


@pytest.mark.parametrize("kind", KINDS)
def test_spark_reads_back_what_it_wrote_with_all_types_partitions_and_added_columns(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    rows = spark.range(0, 12, 1, 2).select(
        "id",
        f.expr("CASE WHEN id % 3 = 1 THEN 'a b/ü%' WHEN id % 3 = 2 THEN 'plain' END").alias("site"),
        f.expr("date_add(DATE'2026-11-22', CAST(id % 2 AS int))").alias("day"),
        f.timestamp_micros(f.col("id") + 1_700_000_000_000_001).alias("time"),
        f.expr("TIMESTAMP_NTZ'2026-11-22 01:02:03.000004'").alias("wall_clock"),
        f.expr("CAST(id AS decimal(12, 2))").alias("price"),
        f.expr("CAST(id AS float)").alias("share"),
        f.expr("map('id', id)").alias("counts"),
        f.expr("array(named_struct('key', 'k', 'value', X'00FF'))").alias("headers"),
        f.expr("id > 5").alias("is_big"),
    )
    table = open_table(kind, str(tmp_path / "events"), app_id="load", partition_by=("site", "day"))
    table.append(rows, 0)
    later = rows.withColumn("id", f.col("id") + 100).withColumn("extra", f.lit(7))
    table.append(later, 1)
    expected = sorted(rows.withColumn("extra", f.lit(None).cast("int")).collect()) + sorted(later.collect())
    assert sorted(table.read(spark).collect(), key=lambda row: row.id) == expected
    assert table.read(spark).filter("day = DATE'2026-11-23' AND site = 'plain'").count() == 4
    table.compact(1_000_000)
    assert sorted(table.read(spark).collect(), key=lambda row: row.id) == expected


@pytest.mark.parametrize("kind", SOME)
def test_a_task_that_fails_and_is_repeated_leaves_nothing_in_the_table(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    table = open_table(kind, str(tmp_path / "events"), app_id="load")
    table.append(spark.range(10), 0)
    broken = spark.range(0, 40_000, 1, 2).withColumn("id", f.expr("IF(id = 39999, raise_error('broken'), id)"))
    with pytest.raises(Exception, match="broken"):
        table.append(broken.select(f.col("id").cast("long")), 1)
    assert table.last() == (0, {})
    table.append(spark.range(10, 20), 1)
    assert sorted(row.id for row in table.read(spark).collect()) == list(range(20))
    assert sorted(plain_rows(kind, str(tmp_path / "events"))["id"].to_pylist()) == list(range(20))


def run(log: Path, settings: Mapping[str, str], *arguments: str) -> int:
    """The exit status of a streaming job in processes of its own."""
    command = [sys.executable, str(ROOT / "tests" / "pipeline" / "table_stream.py"), json.dumps(dict(settings))]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}", "PYSPARK_PYTHON": sys.executable}
    # Into a file: Spark's processes outlive the one that is killed for a while, and would keep a pipe open.
    with log.open("w", encoding="utf-8") as output:
        ran = subprocess.run(
            [*command, *arguments], env=environment, timeout=SECONDS_MAX, stdout=output, stderr=output, check=False
        )
    assert ran.returncode in {0, -signal.SIGKILL}, log.read_text(encoding="utf-8")[-2000:]
    return ran.returncode


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_killed_before_and_after_commits_has_every_record_once(
    kind: str, spark_settings: Mapping[str, str], spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic = Place(bootstrap).make_topic(2, configs=KEEP)
    fill(bootstrap, topic, RECORDS)
    location, checkpoint = str(tmp_path / "events"), str(tmp_path / "checkpoint")
    settings = {**spark_settings, "spark.master": "local[1]"}
    deaths = ("before 0", "after 0", "before 1", "after 1", "never")
    statuses = [
        run(tmp_path / "log", settings, bootstrap, topic, kind, location, checkpoint, death) for death in deaths
    ]
    assert statuses == [-signal.SIGKILL] * 4 + [0]
    table: Table = open_table(kind, location, app_id="stream")
    rows = [row.asDict() for row in table.read(spark).select("partition", "offset").collect()]
    assert offsets_of(rows) == offsets_of(plain_rows(kind, location).to_pylist()) == all_once()
