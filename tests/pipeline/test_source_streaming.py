"""Streams that the source `sordini` reads: new topics, limits, restarts, and the offsets committed for a group."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient

from sordini.pipeline.source.client import Client, ClientSettings
from sordini.pipeline.source.positions import Position, lag
from tests.outside.processes import BrokerProcess
from tests.pipeline.batches import Batches, end, running, until
from tests.pipeline.sent import KEEP, Row, fill, without_headers
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 60

Stream = Callable[..., "DataFrame"]


@pytest.fixture
def stream(spark: SparkSession, place: Place) -> Stream:
    """`stream(subscribe=...)`: the frame of a stream from the earliest offsets, with headers."""

    def make(**options: str) -> DataFrame:
        reader = spark.readStream.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
        return reader.options(**{"startingOffsets": "earliest", "includeHeaders": "true", **options}).load()

    return make


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    return Batches(tmp_path / "checkpoint")


def in_order(sent: list[Row]) -> list[Row]:
    return sorted(sent, key=lambda row: row[:2])


def test_a_stream_is_cut_by_its_limit_and_tells_its_group_and_goes_on_after_a_restart(
    place: Place, stream: Stream, batches: Batches
) -> None:
    topic, group = place.make_topic(2, configs=KEEP), f"group-{uuid4().hex[:8]}"
    sent = fill(place.bootstrap, topic, COUNT)
    options = {"subscribe": topic, "maxOffsetsPerTrigger": "25", "commit_group": group}
    batches.drain(stream(**options))
    assert [len(batch) for batch in batches.rows] == [25, 25, 10]
    sent += fill(place.bootstrap, topic, 10, first=COUNT)
    batches.drain(stream(**options))
    assert [len(batch) for batch in batches.rows] == [25, 25, 10, 10]
    assert batches.everything == in_order(sent)
    with Client(ClientSettings.from_options({"kafka.bootstrap.servers": place.bootstrap})) as client:
        assert client.committed(group) == {(topic, 0): 35, (topic, 1): 35}


@pytest.mark.long
def test_what_is_sent_while_a_stream_runs_comes_once(place: Place, stream: Stream, batches: Batches) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    with running(batches.writer(stream(subscribe=topic))) as query:
        query.processAllAvailable()
        sent += fill(place.bootstrap, topic, COUNT, first=COUNT)
        query.processAllAvailable()
    assert batches.everything == in_order(sent)


@pytest.mark.long
def test_a_pattern_finds_topics_and_partitions_that_come_while_it_runs(
    place: Place, stream: Stream, batches: Batches
) -> None:
    family = f"family-{uuid4().hex[:8]}"
    first = place.make_topic(1, name=f"{family}-a", configs=KEEP)
    expected = without_headers(fill(place.bootstrap, first, 10, partitions=1))
    with running(batches.writer(stream(subscribePattern=f"{family}-.*", startingOffsets="latest"))) as query:
        # The first batch has nothing: the query has started, and what comes from now on is new to it.
        until(query, lambda: query.lastProgress is not None, "the query starts")
        second = place.make_topic(1, name=f"{family}-b", configs=KEEP)
        expected = without_headers(fill(place.bootstrap, second, 10, partitions=1))
        with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap)) as admin:
            admin.create_partitions({first: 2})
            admin.wait_for_topics([first])
        expected += without_headers(fill(place.bootstrap, first, 4, partitions=2, first=20))
        until(query, lambda: len(batches.everything) >= len(expected), "all records come")
    assert sorted(row.value or "" for row in batches.everything) == sorted(row.value or "" for row in expected)


@pytest.mark.long
def test_the_progress_of_a_query_tells_its_lag(place: Place, stream: Stream, batches: Batches) -> None:
    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, COUNT)
    query = batches.writer(stream(subscribe=topic, maxOffsetsPerTrigger="25")).trigger(availableNow=True).start()
    end(query)
    lags = []
    for progress in query.recentProgress:
        source = progress["sources"][0] if isinstance(progress, dict) else progress.sources[0].jsonValue
        reported = [
            source[name] if isinstance(source[name], dict) else json.loads(source[name])
            for name in ("endOffset", "latestOffset")
        ]
        done, latest = (Position.from_json(each).offsets for each in reported)
        lags.append(sum(lag(done, latest)[topic].values()))
    assert lags[:3] == [35, 10, 0]


@pytest.mark.long
def test_a_trigger_waits_for_enough_records_but_not_for_ever(place: Place, stream: Stream, batches: Batches) -> None:
    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, COUNT)
    options = {"subscribe": topic, "minOffsetsPerTrigger": "50", "maxTriggerDelay": "3s"}
    with running(batches.writer(stream(**options))) as query:
        until(query, lambda: len(batches.everything) == COUNT, "the first records come")
        fill(place.bootstrap, topic, 20, first=COUNT)
        until(query, lambda: len(batches.everything) == COUNT + 20, "the delay ends")
        fill(place.bootstrap, topic, 20, first=COUNT + 20)
        fill(place.bootstrap, topic, 40, first=COUNT + 40)
        until(query, lambda: len(batches.everything) == COUNT + 80, "enough records come")
    assert [len(batch) for batch in batches.rows[:2]] == [COUNT, 20]


@pytest.mark.long
def test_what_is_there_now_is_read_though_it_is_less_than_a_trigger_waits_for(
    place: Place, stream: Stream, batches: Batches
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, 10)
    batches.drain(stream(subscribe=topic, minOffsetsPerTrigger="50"))
    assert batches.everything == sent


@pytest.mark.long
def test_a_stream_waits_for_a_broker_that_is_killed_and_comes_back(
    spark: SparkSession, start_broker: Callable[..., BrokerProcess], batches: Batches
) -> None:
    broker = start_broker({"log.flush.interval.messages": 1})
    topic = Place(broker.bootstrap).make_topic(2, configs=KEEP)
    sent = fill(broker.bootstrap, topic, COUNT)
    reader = spark.readStream.format("sordini").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true").load()
    with running(batches.writer(frame)) as query:
        query.processAllAvailable()
        broker.kill()
        broker.start()
        sent += fill(broker.bootstrap, topic, COUNT, first=COUNT)
        query.processAllAvailable()
    assert batches.everything == in_order(sent)


@pytest.mark.long
def test_an_option_of_batches_stops_a_stream_before_it_starts(stream: Stream, batches: Batches) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="a stream has no end"):
        batches.drain(stream(subscribe="any", endingOffsets="latest"))
