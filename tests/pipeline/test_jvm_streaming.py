"""Streams that Spark's own Kafka source reads from our brokers: topics that come, limits, restarts, losses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient

from tests.outside.processes import BrokerProcess
from tests.pipeline.batches import Batches, running
from tests.pipeline.sent import KEEP, fill, without_headers
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 60
COMPACTED = 4_000
"""So many records are some segments, and few when they are cleaned."""
OLD_WAY = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"

Stream = Callable[..., "DataFrame"]


@pytest.fixture
def stream(spark: SparkSession, place: Place) -> Stream:
    """`stream(subscribe=...)`: the frame of a stream from the earliest offsets."""

    def make(**options: str) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
        return reader.options(**{"startingOffsets": "earliest", **options}).load()

    return make


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    return Batches(tmp_path / "checkpoint")


def test_what_is_sent_while_a_stream_runs_comes_once(place: Place, stream: Stream, batches: Batches) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    with running(batches.writer(stream(subscribe=topic, includeHeaders="true"))) as query:
        query.processAllAvailable()
        sent += fill(place.bootstrap, topic, COUNT, first=COUNT)
        query.processAllAvailable()
    assert batches.everything == sorted(sent, key=lambda row: row[:2])


@pytest.mark.long
def test_a_pattern_finds_topics_and_partitions_that_come_while_it_runs(
    place: Place, stream: Stream, batches: Batches
) -> None:
    family = f"family-{uuid4().hex[:8]}"
    first = place.make_topic(1, name=f"{family}-a", configs=KEEP)
    expected = without_headers(fill(place.bootstrap, first, 10, partitions=1))
    with running(batches.writer(stream(subscribePattern=f"{family}-.*"))) as query:
        query.processAllAvailable()
        second = place.make_topic(1, name=f"{family}-b", configs=KEEP)
        expected += without_headers(fill(place.bootstrap, second, 10, partitions=1))
        with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap)) as admin:
            admin.create_partitions({first: 2})
            admin.wait_for_topics([first])
        query.processAllAvailable()
        # The new partition is the second; whatever was sent to the first before stays where it was.
        more = fill(place.bootstrap, first, 4, partitions=2, first=20)
        query.processAllAvailable()
    values = sorted(row.value or "" for row in batches.everything)
    assert values == sorted(row.value or "" for row in [*expected, *more])


@pytest.mark.slow
def test_available_now_is_cut_into_batches_no_larger_than_the_limit(
    place: Place, stream: Stream, batches: Batches
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    batches.drain(stream(subscribe=topic, includeHeaders="true", maxOffsetsPerTrigger="25"))
    assert [len(batch) for batch in batches.rows] == [24, 24, 12], "the share of a partition is rounded down"
    assert batches.everything == sent


def test_a_restarted_stream_resumes_at_its_checkpoint(place: Place, stream: Stream, batches: Batches) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    batches.drain(stream(subscribe=topic, includeHeaders="true"))
    sent += fill(place.bootstrap, topic, COUNT, first=COUNT)
    batches.drain(stream(subscribe=topic, includeHeaders="true"))
    assert len(batches.rows) == 2
    assert batches.everything == sorted(sent, key=lambda row: row[:2])


@pytest.mark.long
def test_a_stream_whose_offsets_retention_took_stops_or_goes_on_as_asked(
    place: Place, stream: Stream, batches: Batches
) -> None:
    from pyspark.errors import PySparkException

    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    batches.drain(stream(subscribe=topic, includeHeaders="true"))
    lost = fill(place.bootstrap, topic, COUNT, first=COUNT)
    place.delete_records(topic, {0: 40, 1: 50})
    with pytest.raises(PySparkException):
        batches.drain(stream(subscribe=topic, includeHeaders="true"))
    batches.drain(stream(subscribe=topic, includeHeaders="true", failOnDataLoss="false"))
    kept = [row for row in lost if row.offset >= {0: 40, 1: 50}[row.partition]]
    assert batches.everything == sorted([*sent, *kept], key=lambda row: row[:2])


@pytest.mark.long
def test_a_stream_whose_topic_was_made_again_stops_rather_than_skip_its_records(
    place: Place, stream: Stream, batches: Batches
) -> None:
    from pyspark.errors import PySparkException

    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, COUNT)
    batches.drain(stream(subscribe=topic))
    place.recreate(topic, 2, configs=KEEP)
    fill(place.bootstrap, topic, 10)
    with pytest.raises(PySparkException):
        batches.drain(stream(subscribe=topic))


@pytest.mark.long
def test_the_old_way_of_asking_for_offsets_reads_as_a_member_of_a_group(
    spark: SparkSession, place: Place, stream: Stream, batches: Batches
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    spark.conf.set(OLD_WAY, "true")
    try:
        batches.drain(stream(subscribe=topic, includeHeaders="true", maxOffsetsPerTrigger="25"))
    finally:
        spark.conf.unset(OLD_WAY)
    assert batches.everything == sent


@pytest.mark.long
def test_a_stream_waits_for_a_broker_that_is_killed_and_comes_back(
    spark: SparkSession, start_broker: Callable[..., BrokerProcess], batches: Batches
) -> None:
    broker = start_broker({"log.flush.interval.messages": 1})
    topic = Place(broker.bootstrap).make_topic(2, configs=KEEP)
    sent = fill(broker.bootstrap, topic, COUNT)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true").load()
    with running(batches.writer(frame)) as query:
        query.processAllAvailable()
        broker.kill()
        broker.start()
        sent += fill(broker.bootstrap, topic, COUNT, first=COUNT)
        query.processAllAvailable()
    assert batches.everything == sorted(sent, key=lambda row: row[:2])


@pytest.mark.long
def test_rows_that_compaction_left_are_read_across_its_gaps(
    spark: SparkSession, start_sordini: Callable[..., BrokerProcess], batches: Batches
) -> None:
    settings = {"log.cleaner.backoff.ms": 20, "log.cleaner.min.cleanable.ratio": 0.01, "log.segment.bytes": 50_000}
    broker = start_sordini(settings)
    topic = Place(broker.bootstrap).make_topic(1, configs={**KEEP, "cleanup.policy": "compact"})
    sent = fill(broker.bootstrap, topic, COMPACTED, partitions=1, keys=5)
    first = broker.data_directory / f"{topic}-0" / f"{0:020}.log"
    broker.wait_until(lambda: first.exists() and first.stat().st_size < 5_000, 30, "clean the topic")
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    batches.drain(reader.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true").load())
    found = batches.everything
    assert len(found) < COMPACTED == found[-1].offset + 1, "there are gaps"
    assert {row.key: row.value for row in found} == {row.key: row.value for row in sent}
