"""Batches that Spark's own Kafka source reads from our brokers, by every way of saying what is wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.pipeline.sent import KEEP, START_MS, Row, fill, rows, without_headers
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 60


class Filled(NamedTuple):
    """A topic of two partitions, what it holds, and how it is read."""

    topic: str
    sent: list[Row]
    read: Callable[..., DataFrame]

    def between(self, ranges: dict[int, tuple[int, int]]) -> list[Row]:
        """The rows of some partitions with offsets from the first and below the second."""
        wanted = {partition: range(*offsets) for partition, offsets in ranges.items()}
        return [row for row in without_headers(self.sent) if row.offset in wanted.get(row.partition, ())]


@pytest.fixture(scope="module")
def filled(spark: SparkSession, place: Place) -> Filled:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)

    def read(**options: str) -> DataFrame:
        return spark.read.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).options(**options).load()

    return Filled(topic, sent, read)


def test_a_subscription_reads_every_column_of_every_record(filled: Filled) -> None:
    frame = filled.read(subscribe=filled.topic, includeHeaders="true")
    assert rows(frame) == filled.sent
    assert frame.select("topic", "timestampType").distinct().collect() == [(filled.topic, 0)]


@pytest.mark.slow
def test_an_assignment_reads_its_partitions_alone(filled: Filled) -> None:
    frame = filled.read(assign=json.dumps({filled.topic: [1]}))
    assert rows(frame) == filled.between({1: (0, COUNT)})


@pytest.mark.slow
def test_a_pattern_reads_the_topics_it_fits(filled: Filled) -> None:
    frame = filled.read(subscribePattern=f"{filled.topic[:-2]}..")
    assert rows(frame) == without_headers(filled.sent)


def test_offsets_bound_each_partition_and_mean_earliest_and_latest_when_negative(filled: Filled) -> None:
    starts, ends = json.dumps({filled.topic: {"0": 5, "1": -2}}), json.dumps({filled.topic: {"0": -1, "1": 3}})
    frame = filled.read(subscribe=filled.topic, startingOffsets=starts, endingOffsets=ends)
    assert rows(frame) == filled.between({0: (5, COUNT), 1: (0, 3)})


def test_one_timestamp_for_all_partitions_bounds_what_is_read(filled: Filled) -> None:
    times = {"startingTimestamp": str(START_MS + 4_500), "endingTimestamp": str(START_MS + 9_000)}
    frame = filled.read(subscribe=filled.topic, **times)
    assert rows(frame) == filled.between({0: (5, 9), 1: (5, 9)})


@pytest.mark.slow
def test_a_timestamp_for_each_partition_bounds_what_is_read(filled: Filled) -> None:
    starts = {filled.topic: {"0": START_MS + 20_000, "1": START_MS}}
    ends = {filled.topic: {"0": START_MS + 10**9, "1": START_MS + 2_000}}
    maps = {"startingOffsetsByTimestamp": json.dumps(starts), "endingOffsetsByTimestamp": json.dumps(ends)}
    frame = filled.read(subscribe=filled.topic, **maps)
    assert rows(frame) == filled.between({0: (20, COUNT), 1: (0, 2)})


@pytest.mark.slow
def test_a_start_later_than_every_record_reads_nothing_or_stops_as_asked(filled: Filled) -> None:
    from pyspark.errors import PySparkException

    late = {"subscribe": filled.topic, "startingTimestamp": str(START_MS + 10**9)}
    assert rows(filled.read(**late, startingOffsetsByTimestampStrategy="latest")) == []
    with pytest.raises(PySparkException):
        filled.read(**late).count()


@pytest.mark.slow
def test_partitions_are_split_when_more_are_wanted_and_nothing_is_read_twice(filled: Filled) -> None:
    frame = filled.read(subscribe=filled.topic, minPartitions="5")
    assert frame.rdd.getNumPartitions() >= 5
    assert rows(frame) == without_headers(filled.sent)


@pytest.mark.long
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read(spark: SparkSession, place: Place, codec: str) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT, compression=codec)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
    assert rows(reader.option("subscribe", topic).load()) == without_headers(sent)


@pytest.mark.long
def test_old_fetch_sizes_make_many_small_fetches_of_the_same_records(filled: Filled) -> None:
    small = {"kafka.max.poll.records": "3", "kafka.max.partition.fetch.bytes": "64", "kafka.fetch.max.bytes": "64"}
    assert rows(filled.read(subscribe=filled.topic, includeHeaders="true", **small)) == filled.sent


@pytest.mark.slow
def test_read_committed_reads_what_has_no_transactions(filled: Filled) -> None:
    options = {"kafka.isolation.level": "read_committed", "subscribe": filled.topic, "includeHeaders": "true"}
    assert rows(filled.read(**options)) == filled.sent


@pytest.mark.long
def test_offsets_that_retention_took_stop_a_batch_or_are_passed_over_as_asked(
    spark: SparkSession, place: Place
) -> None:
    from py4j.protocol import Py4JJavaError

    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    place.delete_records(topic, {0: 10, 1: 0})

    def read(fail: str) -> DataFrame:
        starts = json.dumps({topic: {"0": 4, "1": 4}})
        options = {"subscribe": topic, "startingOffsets": starts, "failOnDataLoss": fail}
        return spark.read.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).options(**options).load()

    with pytest.raises(Py4JJavaError, match="data may have been lost"):
        rows(read("true"))
    left = {0: range(10, COUNT), 1: range(4, COUNT)}
    assert rows(read("false")) == [row for row in without_headers(sent) if row.offset in left[row.partition]]
