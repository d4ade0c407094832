"""Batches and streams that Spark's own Kafka sink writes to our brokers: its producer is an idempotent one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.pipeline.batches import end, running, until
from tests.pipeline.sent import KEEP, fill, rows, values
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 60

Read = Callable[[str], "DataFrame"]


@pytest.fixture
def read(spark: SparkSession, place: Place) -> Read:
    """`read(topic)`: the batch of all it holds."""

    def load(topic: str) -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
        return reader.options(subscribe=topic, includeHeaders="true").load()

    return load


def test_a_batch_is_written_with_keys_headers_and_partitions(spark: SparkSession, place: Place, read: Read) -> None:
    topic = place.make_topic(3, configs=KEEP)
    columns = [
        "cast(concat('key-', id) as binary) as key",
        "if(id % 5 = 0, null, cast(concat('value-', id) as binary)) as value",
        "array(struct('n' as key, cast(cast(id as string) as binary) as value)) as headers",
        "cast(id % 3 as int) as partition",
    ]
    frame = spark.range(30).selectExpr(*columns)
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).option("topic", topic)
    writer.option("kafka.compression.type", "zstd").option("includeHeaders", "true").save()
    found = {row.key: row for row in rows(read(topic))}
    assert len(found) == 30
    for number in range(30):
        row = found[f"key-{number}"]
        assert row.partition == number % 3
        assert row.value == (None if number % 5 == 0 else f"value-{number}")
        assert row.headers == (("n", b"%d" % number),)


@pytest.mark.slow
def test_each_row_can_name_its_topic_and_a_topic_that_is_not_there_is_made(spark: SparkSession, place: Place) -> None:
    names = [f"made-{uuid4().hex[:12]}" for _ in range(2)]
    frame = spark.createDataFrame(
        [(names[number % 2], f"value-{number}") for number in range(20)], "topic string, value string"
    )
    frame.write.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).save()
    for which, name in enumerate(names):
        assert values(place.bootstrap, name, 1) == sorted(f"value-{number}" for number in range(which, 20, 2))


@pytest.mark.long
def test_a_stream_from_topic_to_topic_goes_on_after_a_restart(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    expected = []
    for first in (0, COUNT):
        expected += [row.value or "" for row in fill(place.bootstrap, source, COUNT, first=first)]
        query = _copying(spark, place, source, target, tmp_path).trigger(availableNow=True).start()
        end(query)
        assert values(place.bootstrap, target) == sorted(expected)


@pytest.mark.long
def test_a_continuous_stream_copies_what_is_sent_while_it_runs(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    expected = [row.value or "" for row in fill(place.bootstrap, source, COUNT)]
    writer = _copying(spark, place, source, target, tmp_path).trigger(continuous="500 milliseconds")
    with running(writer) as query:
        until(query, lambda: values(place.bootstrap, target) == sorted(expected), "the first records are copied")
        expected += [row.value or "" for row in fill(place.bootstrap, source, COUNT, first=COUNT)]
        until(query, lambda: values(place.bootstrap, target) == sorted(expected), "the later records are copied")


@pytest.mark.long
def test_a_real_time_stream_copies_what_is_sent_while_it_runs(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    if spark.version < "4.1":
        return  # Spark has had it since then.
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    expected = [row.value or "" for row in fill(place.bootstrap, source, COUNT)]
    writer = _copying(spark, place, source, target, tmp_path).outputMode("update").trigger(realTime="5 seconds")
    with running(writer) as query:
        until(query, lambda: values(place.bootstrap, target) == sorted(expected), "the first records are copied")
        expected += [row.value or "" for row in fill(place.bootstrap, source, COUNT, first=COUNT)]
        until(query, lambda: values(place.bootstrap, target) == sorted(expected), "the later records are copied")


def _copying(spark: SparkSession, place: Place, source: str, target: str, home: Path):
    """The writer of a query that copies one topic to another."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
    frame = reader.options(subscribe=source, startingOffsets="earliest", includeHeaders="true").load()
    writer = frame.select("key", "value", "headers").writeStream.format("kafka")
    options = {"topic": target, "includeHeaders": "true", "checkpointLocation": str(home / "checkpoint")}
    return writer.option("kafka.bootstrap.servers", place.bootstrap).options(**options)
