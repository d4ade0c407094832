from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from sordini.client.errors import Unreachable
from sordini.pipeline.source.batch_planning import DataLost
from sordini.pipeline.source.options import read_options
from sordini.pipeline.source.stream import StreamPorts, StreamReader
from sordini.protocol.types import TopicPartition


class Cluster:
    """Topics of one partition whose logs grow when a test says so."""

    def __init__(self, ends: dict[str, int]) -> None:
        self.ends = ends
        self.ids = {topic: f"id of {topic}" for topic in ends}
        self.groups: list[tuple[str, dict[TopicPartition, int]]] = []
        self.is_coordinator_away = False
        self.stale_answers: list[dict[str, int]] = []
        self.is_closed = False

    def topics(self) -> list[str]:
        return list(self.ends)

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        return {topic: [0] for topic in topics}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: self.ids[topic] for topic in topics}

    def offsets(self, at: Mapping[TopicPartition, int], *, read_committed: bool = False) -> dict[TopicPartition, int]:
        ends = self.stale_answers.pop(0) if self.stale_answers else self.ends
        return {partition: 0 if time == -2 else ends[partition.topic] for partition, time in at.items()}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.is_coordinator_away:
            raise Unreachable("no coordinator")
        self.groups.append((group, dict(offsets)))

    def close(self) -> None:
        self.is_closed = True


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


def planned(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    """The tasks of a batch; Spark's own type of them has no fields."""
    return list(stream.partitions(start, end))


def reader(cluster: Cluster, clock: Clock | None = None, **given: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": "localhost:9092", "startingOffsets": "earliest", **given}
    if "subscribePattern" not in given:
        options["subscribe"] = ",".join(cluster.ends)
    clock = clock or Clock()
    return StreamReader(
        read_options(options, streaming=True), StreamPorts(lambda _: cluster, clock.monotonic, clock.pause)
    )


def ended(position: dict[str, Any]) -> dict[str, int]:
    return {topic: each["0"] for topic, each in position.items() if not topic.startswith("$")}


ALL = ReadAllAvailable()


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
    ],
)
def test_the_limit_is_what_the_options_say(given: dict[str, str], limit: ReadLimit) -> None:
    assert reader(Cluster({"a": 1}), **given).getDefaultReadLimit() == limit


def test_a_micro_batch_ends_at_its_limit_or_where_spark_wants_all_at_the_end() -> None:
    stream = reader(Cluster({"a": 10}), maxOffsetsPerTrigger="7")
    start = stream.initialOffset()
    assert ended(stream.latestOffset(start, stream.getDefaultReadLimit())) == {"a": 7}
    assert ended(stream.latestOffset(start, ALL)) == {"a": 10}


def test_a_position_with_nothing_behind_it_is_given_back_as_it_is() -> None:
    stream = reader(Cluster({"a": 10}))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert stream.latestOffset(end, ALL) == end
    assert stream.partitions(end, end) == []


def test_what_is_there_now_stays_the_end_of_the_whole_query() -> None:
    cluster = Cluster({"a": 10})
    stream = reader(cluster)
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    cluster.ends["a"] = 20
    assert ended(stream.latestOffset(start, ALL)) == {"a": 10}


def test_the_ends_are_reported_as_they_were_last_seen() -> None:
    stream = reader(Cluster({"a": 10}), maxOffsetsPerTrigger="7")
    assert stream.reportLatestOffset() is None
    stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert ended(stream.reportLatestOffset() or {}) == {"a": 10}


def test_a_trigger_waits_for_enough_offsets_until_its_delay_is_over() -> None:
    cluster, clock = Cluster({"a": 1}), Clock()
    stream = reader(cluster, clock, minOffsetsPerTrigger="5", maxTriggerDelay="30s")
    limit = stream.getDefaultReadLimit()
    end = stream.latestOffset(stream.initialOffset(), limit)
    assert ended(end) == {"a": 1}, "the first micro-batch has waited for longer than any delay"
    cluster.ends["a"] = 4
    assert stream.latestOffset(end, limit) == end
    clock.seconds += 29
    assert stream.latestOffset(end, limit) == end
    clock.seconds += 1
    end = stream.latestOffset(end, limit)
    assert ended(end) == {"a": 4}
    cluster.ends["a"] = 9
    assert ended(stream.latestOffset(end, limit)) == {"a": 9}, "enough is there at once"


def test_a_trigger_does_not_wait_when_nothing_more_is_to_come_or_all_is_wanted() -> None:
    cluster = Cluster({"a": 1})
    stream = reader(cluster, minOffsetsPerTrigger="5")
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    cluster.ends["a"] = 2
    assert ended(stream.latestOffset(end, ALL)) == {"a": 2}
    stream.prepareForTriggerAvailableNow()
    assert ended(stream.latestOffset(end, stream.getDefaultReadLimit())) == {"a": 2}


def test_a_topic_that_comes_while_a_pattern_is_read_is_read_from_its_first_offset() -> None:
    cluster = Cluster({"view-a": 10})
    stream = reader(cluster, subscribePattern="view-.*", startingOffsets="latest")
    start = stream.initialOffset()
    cluster.ends["view-b"], cluster.ids["view-b"] = 3, "id"
    end = stream.latestOffset(start, ALL)
    pieces = [part.piece for part in planned(stream, start, end)]
    assert pieces == [("view-b", 0, 0, 3)]


def test_a_group_is_reported_each_micro_batch_once_and_of_the_last_one_too() -> None:
    cluster = Cluster({"a": 10})
    stream = reader(cluster, maxOffsetsPerTrigger="7", commit_group="g")
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    assert cluster.groups == [], "nothing has been read yet"
    second = stream.latestOffset(first, limit)
    stream.commit(first)
    assert stream.latestOffset(second, limit) == second
    assert cluster.groups == [("g", {("a", 0): 7}), ("g", {("a", 0): 10})]


def test_a_coordinator_that_is_away_does_not_stop_a_query_and_is_reported_later() -> None:
    cluster = Cluster({"a": 10})
    stream = reader(cluster, commit_group="g")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    cluster.is_coordinator_away = True
    assert stream.latestOffset(end, ALL) == end
    cluster.is_coordinator_away = False
    assert stream.latestOffset(end, ALL) == end
    assert cluster.groups == [("g", {("a", 0): 10})]


def test_without_a_group_no_coordinator_is_reported() -> None:
    cluster = Cluster({"a": 10})
    stream = reader(cluster)
    stream.commit(stream.latestOffset(stream.initialOffset(), ALL))
    assert cluster.groups == []


def test_an_end_before_the_position_is_asked_for_again_before_records_are_called_lost() -> None:
    cluster = Cluster({"a": 10})
    stream = reader(cluster)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    cluster.stale_answers = [{"a": 8}, {"a": 9}]
    assert stream.latestOffset(end, ALL) == end
    cluster.ends["a"] = 8
    with pytest.raises(DataLost, match="partition 0 of 'a' ends at offset 8, but was read up to 10"):
        stream.latestOffset(end, ALL)


def test_an_end_of_the_whole_query_that_was_reported_too_old_is_asked_for_again() -> None:
    cluster = Cluster({"a": 10})
    stream = reader(cluster)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    cluster.stale_answers = [{"a": 8}]
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(end, ALL) == end


def test_a_topic_that_was_made_again_stops_a_query_or_is_read_from_its_start_as_asked() -> None:
    cluster = Cluster({"a": 10})
    end = reader(cluster).latestOffset(reader(cluster).initialOffset(), ALL)
    cluster.ids["a"] = "another"
    cluster.ends["a"] = 15
    with pytest.raises(DataLost, match="topic 'a' has been deleted and created again"):
        reader(cluster).latestOffset(end, ALL)
    lenient = reader(cluster, failOnDataLoss="false")
    again = lenient.latestOffset(end, ALL)
    assert [(part.piece, part.topic_id) for part in planned(lenient, end, again)] == [(("a", 0, 0, 15), "another")]


def test_a_topic_that_is_away_for_a_while_is_gone_on_from_where_it_was(caplog: pytest.LogCaptureFixture) -> None:
    cluster, clock = Cluster({"view-a": 10, "view-b": 5}), Clock()
    lenient = reader(cluster, clock, subscribePattern="view-.*", failOnDataLoss="false", commit_group="g")
    end = lenient.latestOffset(lenient.initialOffset(), ALL)
    away = cluster.ends.pop("view-b")
    cluster.ends["view-a"] = 12
    without = lenient.latestOffset(end, ALL)
    began = clock.seconds
    cluster.ends["view-a"] = 14
    without = lenient.latestOffset(without, ALL)
    assert lenient.latestOffset(without, ALL) == without
    assert clock.seconds == began, "a loss that is known is not asked about again"
    assert [record.message for record in caplog.records] == ["records lost: topic 'view-b' does not exist any more"]
    assert cluster.groups[-1] == ("g", {("view-a", 0): 14})
    cluster.ends["view-b"] = away + 3
    back = lenient.latestOffset(without, ALL)
    assert [part.piece for part in planned(lenient, without, back)] == [("view-b", 0, 5, 8)]
    cluster.ids["view-b"] = "another"
    again = lenient.latestOffset(without, ALL)
    assert [part.piece for part in planned(lenient, without, again)] == [("view-b", 0, 0, 8)]


def test_tasks_are_as_many_as_asked() -> None:
    stream = reader(Cluster({"a": 10, "b": 2}), minPartitions="4")
    start = stream.initialOffset()
    pieces = [part.piece for part in planned(stream, start, stream.latestOffset(start, ALL))]
    assert pieces == [("a", 0, 0, 3), ("a", 0, 3, 6), ("a", 0, 6, 10), ("b", 0, 0, 2)]


def test_a_reader_that_has_asked_nothing_travels_to_the_workers_and_hangs_up_when_it_is_stopped() -> None:
    options = read_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}, streaming=True)
    pickle.loads(pickle.dumps(StreamReader(options))).stop()
    cluster = Cluster({"a": 1})
    stream = reader(cluster)
    stream.initialOffset()
    stream.stop()
    stream.stop()
    assert cluster.is_closed
