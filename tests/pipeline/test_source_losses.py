"""Records deleted before the source `sordini` reads them: it stops with the offsets, or continues if configured so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from sordini.pipeline.source.batch_planning import DataLost
from tests.outside.processes import BrokerProcess
from tests.pipeline.engine import Engine
from tests.pipeline.sent import KEEP, fill, rows
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 60

Stream = Callable[..., dict[str, str]]


@pytest.fixture
def stream(place: Place) -> Stream:
    """`stream(subscribe=...)`: the options of a stream from the earliest offsets, with headers."""

    def make(**options: str) -> dict[str, str]:
        base = {"kafka.bootstrap.servers": place.bootstrap, "startingOffsets": "earliest", "includeHeaders": "true"}
        return {**base, **options}

    return make


@pytest.fixture
def query() -> Engine:
    return Engine()


def stops(query: Engine, options: dict[str, str], reason: str) -> None:
    with pytest.raises(DataLost) as caught:
        query.drain(options)
    assert re.search(reason, str(caught.value))
    assert "failOnDataLoss" in str(caught.value)


@pytest.mark.long
def test_offsets_that_retention_took_stop_a_batch_or_are_passed_over_as_asked(
    spark: SparkSession, place: Place
) -> None:
    from pyspark.errors import PySparkException

    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    place.delete_records(topic, {0: 10, 1: 0})

    def read(fail: str) -> DataFrame:
        starts = json.dumps({topic: {"0": 4, "1": 4}})
        options = {"subscribe": topic, "startingOffsets": starts, "failOnDataLoss": fail, "includeHeaders": "true"}
        reader = spark.read.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
        return reader.options(**options).load()

    with pytest.raises(PySparkException, match="6 offsets were deleted by retention"):
        rows(read("true"))
    left = {0: range(10, COUNT), 1: range(4, COUNT)}
    assert rows(read("false")) == [row for row in sent if row.offset in left[row.partition]]


def test_a_stream_whose_offsets_retention_took_stops_or_goes_on_as_asked(
    place: Place, stream: Stream, query: Engine
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    query.drain(stream(subscribe=topic))
    later = fill(place.bootstrap, topic, COUNT, first=COUNT)
    place.delete_records(topic, {0: 40, 1: 50})
    stops(query, stream(subscribe=topic), "deleted by retention")
    query.drain(stream(subscribe=topic, failOnDataLoss="false"))
    kept = [row for row in later if row.offset >= {0: 40, 1: 50}[row.partition]]
    assert query.everything == sorted([*sent, *kept], key=lambda row: row[:2])


def test_a_query_that_died_in_its_first_batch_starts_where_it_had_started_and_not_behind_what_was_lost_since(
    place: Place, stream: Stream, query: Engine
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent = fill(place.bootstrap, topic, COUNT)
    query.drain(stream(subscribe=topic), is_sink_broken=True)
    place.delete_records(topic, {0: 10, 1: 0})
    stops(query, stream(subscribe=topic), "10 offsets were deleted by retention")
    query.drain(stream(subscribe=topic, failOnDataLoss="false"))
    assert query.everything == [row for row in sent if row.offset >= 10 or row.partition == 1]


@pytest.mark.parametrize("again", [10, COUNT, 2 * COUNT], ids=["shorter", "as long", "longer"])
def test_a_topic_that_was_made_again_stops_a_stream_or_is_read_from_its_start_as_asked(
    place: Place, stream: Stream, query: Engine, again: int
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, COUNT)
    query.drain(stream(subscribe=topic))
    place.recreate(topic, 2, configs=KEEP)
    sent = fill(place.bootstrap, topic, again)
    stops(query, stream(subscribe=topic), "deleted and created again")
    query.rows.clear()
    query.drain(stream(subscribe=topic, failOnDataLoss="false"))
    assert query.everything == sent


def test_a_topic_that_a_pattern_finds_no_more_stops_a_stream_or_is_forgotten_as_asked(
    place: Place, stream: Stream, query: Engine
) -> None:
    family = place.make_topic(1, configs=KEEP)
    other = place.make_topic(1, name=f"{family}-b", configs=KEEP)
    fill(place.bootstrap, other, 10, partitions=1)
    query.drain(stream(subscribePattern=f"{family}.*"))
    place.delete_topic(other)
    sent = fill(place.bootstrap, family, 10, partitions=1)
    stops(query, stream(subscribePattern=f"{family}.*"), f"topic '{other}' does not exist any more")
    query.rows.clear()
    query.drain(stream(subscribePattern=f"{family}.*", failOnDataLoss="false"))
    assert query.everything == sent


@pytest.mark.long
def test_gaps_that_compaction_left_are_no_loss(start_sordini: Callable[..., BrokerProcess], query: Engine) -> None:
    settings = {"log.cleaner.backoff.ms": 20, "log.cleaner.min.cleanable.ratio": 0.01, "log.segment.bytes": 2_000}
    broker = start_sordini(settings)
    topic = Place(broker.bootstrap).make_topic(1, configs={**KEEP, "cleanup.policy": "compact"})
    rounds = [fill(broker.bootstrap, topic, 20, partitions=1, keys=5) for _ in range(20)]
    directory = broker.data_directory / f"{topic}-0"
    broker.wait_until(lambda: sum(1 for _ in directory.glob("*.log")) < 5, 30, "clean the topic")
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "maxOffsetsPerTrigger": "150"}
    query.drain({**options, "startingOffsets": "earliest", "includeHeaders": "true"})
    found = query.everything
    assert len(found) < 400 == found[-1].offset + 1, "there are gaps"
    assert {row.key: row.value for row in found} == {row.key: row.value for row in rounds[-1]}
