"""Batches that the source `sordini` reads: the same rows as Spark's own Kafka source, however it is said what to read."""

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
LATE = START_MS + 10**9

Read = Callable[..., "DataFrame"]


class Filled(NamedTuple):
    """A topic of two partitions, and what it holds."""

    topic: str
    sent: list[Row]

    def between(self, ranges: dict[int, tuple[int, int]]) -> list[Row]:
        """The rows of some partitions with offsets from the first and below the second."""
        wanted = {partition: range(*offsets) for partition, offsets in ranges.items()}
        return [row for row in without_headers(self.sent) if row.offset in wanted.get(row.partition, ())]

    def each(self, first: int, second: int) -> str:
        """An option's text that has a number for each partition."""
        return json.dumps({self.topic: {"0": first, "1": second}})


@pytest.fixture(scope="module")
def filled(place: Place) -> Filled:
    topic = place.make_topic(2, configs=KEEP)
    return Filled(topic, fill(place.bootstrap, topic, COUNT))


@pytest.fixture(scope="module")
def read(spark: SparkSession, place: Place) -> Read:
    """`read(subscribe=...)`; `source="kafka"` reads by Spark's own source."""

    def load(source: str = "sordini", **options: str) -> DataFrame:
        return spark.read.format(source).option("kafka.bootstrap.servers", place.bootstrap).options(**options).load()

    return load


def test_a_subscription_reads_every_column_of_every_record(filled: Filled, read: Read) -> None:
    frame = read(subscribe=filled.topic, includeHeaders="true")
    assert frame.schema == read("kafka", subscribe=filled.topic, includeHeaders="true").schema
    assert rows(frame) == filled.sent
    assert frame.select("topic", "timestampType").distinct().collect() == [(filled.topic, 0)]


def test_offsets_bound_each_partition_and_mean_earliest_and_latest_when_negative(filled: Filled, read: Read) -> None:
    bounds = {"startingOffsets": filled.each(5, -2), "endingOffsets": filled.each(-1, 3)}
    assert rows(read(subscribe=filled.topic, **bounds)) == filled.between({0: (5, COUNT), 1: (0, 3)})


def test_timestamps_bound_what_is_read_and_partitions_are_split_as_asked(filled: Filled, read: Read) -> None:
    times = {"startingTimestamp": str(START_MS + 4_500), "endingTimestamp": str(START_MS + 9_000)}
    frame = read(subscribe=filled.topic, minPartitions="5", **times)
    assert rows(frame) == filled.between({0: (5, 9), 1: (5, 9)})
    assert frame.rdd.getNumPartitions() == 5


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"assign": '{"TOPIC": [1]}'},
        {"subscribePattern": "TOPI[C]"},
        {"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": {"0": 7, "1": 0}}'},
        {"subscribe": "TOPIC", "endingOffsets": '{"TOPIC": {"0": 0, "1": 9}}'},
        {"subscribe": "TOPIC", "startingTimestamp": str(START_MS + 4_500)},
        {"subscribe": "TOPIC", "endingTimestamp": str(LATE)},
        {"subscribe": "TOPIC", "startingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {START_MS + 20_000}, "1": 0}}}}'},
        {"subscribe": "TOPIC", "endingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {LATE}, "1": {START_MS + 2_000}}}}}'},
        {"subscribe": "TOPIC", "startingTimestamp": str(LATE), "startingOffsetsByTimestampStrategy": "latest"},
        {"subscribe": "TOPIC", "startingTimestamp": str(START_MS), "startingOffsets": '{"TOPIC": {"0": 7, "1": 0}}'},
        {"subscribe": "TOPIC", "minPartitions": "7"},
        {"subscribe": "TOPIC", "maxRecordsPerPartition": "4"},
        {"subscribe": "TOPIC", "kafka.isolation.level": "read_committed", "includeHeaders": "true"},
    ],
    ids=" ".join,
)
def test_both_sources_read_the_same_rows(filled: Filled, read: Read, options: dict[str, str]) -> None:
    reported = {
        name: value.replace("TOPI[C]", f"{filled.topic[:-1]}.").replace("TOPIC", filled.topic)
        for name, value in options.items()
    }
    assert rows(read(**reported)) == rows(read("kafka", **reported))


@pytest.mark.long
def test_nothing_is_read_twice_when_partitions_are_split(filled: Filled, read: Read) -> None:
    frame = read(subscribe=filled.topic, maxRecordsPerPartition="4")
    assert frame.rdd.getNumPartitions() == 2 * -(-(COUNT // 2) // 4)
    assert rows(frame) == without_headers(filled.sent)


@pytest.mark.long
def test_columns_that_are_not_asked_for_are_not_there(filled: Filled, read: Read) -> None:
    frame = read(subscribe=filled.topic, columns="offset,value")
    assert frame.columns == ["value", "offset"]
    assert sorted(frame.collect(), key=str) == sorted(
        ((row.value and row.value.encode(), row.offset) for row in filled.sent), key=str
    )


@pytest.mark.long
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read(place: Place, read: Read, codec: str) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT, compression=codec)
    assert rows(read(subscribe=topic, includeHeaders="true")) == sent


@pytest.mark.long
def test_small_fetches_give_the_same_records(filled: Filled, read: Read) -> None:
    frame = read(subscribe=filled.topic, includeHeaders="true", **{"kafka.max.partition.fetch.bytes": "64"})
    assert rows(frame) == filled.sent


@pytest.mark.long
def test_an_empty_topic_and_one_that_a_pattern_does_not_find_give_no_rows(place: Place, read: Read) -> None:
    assert rows(read(subscribe=place.make_topic(2))) == []
    assert rows(read(subscribePattern="no-topic-is-called-so.*")) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribe": "TOPIC,nowhere"}, "there is no topic 'nowhere'"),
        ({"assign": '{"TOPIC": [0, 2]}'}, "has no partition 2"),
        ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": {"0": 1}}'}, "leaves out TOPIC-1"),
        ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": {"0": 50, "1": 0}}'}, "50 in TOPIC-0 is past the end"),
        ({"subscribe": "TOPIC", "startingTimestamp": str(LATE)}, "has no record of the requested time"),
        ({"subscribe": "TOPIC", "startingoffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "TOPIC", "kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"subscribe": "TOPIC", "kafka.bootstrap.servers": "127.0.0.1:9"}, "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_read_is_said_before_anything_is_read(
    filled: Filled, read: Read, options: dict[str, str], complaint: str
) -> None:
    from pyspark.errors import AnalysisException

    reported = {name: value.replace("TOPIC", filled.topic) for name, value in options.items()}
    with pytest.raises(AnalysisException) as caught:
        read(**reported, **{"kafka.default.api.timeout.ms": "2000"}).count()
    assert complaint.replace("TOPIC", filled.topic) in str(caught.value)


@pytest.mark.long
def test_a_schema_of_ones_own_is_refused(spark: SparkSession, place: Place, filled: Filled) -> None:
    from pyspark.errors import AnalysisException

    reader = spark.read.format("sordini").option("kafka.bootstrap.servers", place.bootstrap).schema("value string")
    with pytest.raises(AnalysisException, match="convert the columns"):
        reader.option("subscribe", filled.topic).load().count()


@pytest.mark.long
def test_a_frame_keeps_the_ends_of_its_first_run_and_a_new_one_looks_again(place: Place, read: Read) -> None:
    topic = place.make_topic(2, configs=KEEP)
    frame = read(subscribe=topic, includeHeaders="true")
    sent = fill(place.bootstrap, topic, COUNT)
    assert rows(frame) == sent
    fill(place.bootstrap, topic, COUNT, first=COUNT)
    assert frame.count() == COUNT
    assert read(subscribe=topic).count() == 2 * COUNT
