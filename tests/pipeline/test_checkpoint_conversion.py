"""A streaming query that goes on with the other source, from a converted checkpoint: nothing is lost or repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from sordini.pipeline.cli.pipeline import pipeline
from tests.pipeline.batches import Batches, drain
from tests.pipeline.sent import KEEP, Row, fill, without_headers
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

COUNT = 20


def read(spark: SparkSession, source: str, place: Place, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format(source).options(**options, maxOffsetsPerTrigger="6").load()


def converted(folder: Path, into: Path, to: str) -> Path:
    done = CliRunner().invoke(pipeline, ["checkpoint", "convert", str(folder), str(into), "--to", to])
    assert done.exit_code == 0, done.output
    assert f"{into} continues " in done.output
    return into


@pytest.mark.parametrize("sources", [("kafka", "sordini", "kafka"), ("sordini", "kafka", "sordini")])
def test_a_query_goes_on_with_the_other_source_and_back(
    spark: SparkSession, place: Place, tmp_path: Path, sources: tuple[str, str, str]
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent: list[Row] = []
    seen: list[Row] = []
    checkpoint = tmp_path / "0"
    for turn, source in enumerate(sources):
        if turn:
            checkpoint = converted(checkpoint, tmp_path / str(turn), source)
        sent += fill(place.bootstrap, topic, COUNT, first=turn * COUNT)
        batches = Batches(checkpoint)
        batches.drain(read(spark, source, place, topic))
        seen += batches.everything
        assert sorted(seen) == sorted(without_headers(sent))


@pytest.mark.parametrize(("first", "then"), [("kafka", "sordini"), ("sordini", "kafka")])
def test_a_first_batch_that_failed_is_repeated_with_the_same_records(
    spark: SparkSession, place: Place, tmp_path: Path, first: str, then: str
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, COUNT)
    planned: list[int] = []

    def fails(batch: DataFrame, number: int) -> None:
        planned.append(batch.count())
        raise ZeroDivisionError

    writer = read(spark, first, place, topic).writeStream.foreachBatch(fails)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        drain(writer.option("checkpointLocation", str(tmp_path / "before")))
    fill(place.bootstrap, topic, COUNT, first=COUNT)
    batches = Batches(converted(tmp_path / "before", tmp_path / "after", then))
    batches.drain(read(spark, then, place, topic))
    assert len(batches.rows[0]) == planned[0]
    assert [row.offset for row in batches.everything] == [*range(COUNT), *range(COUNT)]


def test_counts_of_a_window_go_on_with_their_state(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    topic = place.make_topic(2, configs=KEEP)
    counted: dict[str, int] = {}

    def keep(batch: DataFrame, _: int) -> None:
        counted.update({row["key"]: row["count"] for row in batch.collect()})

    checkpoint = tmp_path / "0"
    for turn, source in enumerate(("kafka", "sordini")):
        if turn:
            checkpoint = converted(checkpoint, tmp_path / str(turn), source)
        fill(place.bootstrap, topic, COUNT, first=turn * COUNT, keys=4)
        counts = read(spark, source, place, topic).selectExpr("cast(key as string) as key").groupBy("key").count()
        drain(counts.writeStream.outputMode("update").foreachBatch(keep).option("checkpointLocation", str(checkpoint)))
    assert counted == {f"key-{number}": COUNT // 2 for number in range(4)}
