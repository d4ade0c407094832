"""DescribeBrokerActivity and DescribeSegments, as a broker answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sordini import __version__
from sordini.broker.administration.activity.event_log import EventKind
from sordini.broker.administration.segments_handler import SEGMENTS_MAX
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_broker_activity import DescribeBrokerActivityRequest
from sordini.protocol.messages.describe_segments import (
    DescribeSegmentsRequest,
    SegmentsPartition,
    SegmentsTopic,
)
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker

SMALL = {"log.segment.bytes": "1048576", "log.retention.bytes": "3000000", "log.retention.ms": "-1"}
"""Three of the batches below, which are larger than half a segment."""


@pytest.fixture
async def broker() -> AsyncIterator[UnitBroker]:
    async with a_broker(SMALL) as made:
        await made.lead("orders", 2)
        yield made


def produce(broker: UnitBroker, *times: int, partition: int = 0, size: int = 600_000) -> None:
    for time in times:
        data = PartitionProduceData(index=partition, records=build_batch([Record(0, time, None, b"v" * size)]))
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
        assert broker.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0].error_code == 0


def segments(broker: UnitBroker, *wanted: tuple[int, int], count: int = -1, topic: str = "orders") -> list[Any]:
    rows = [SegmentsPartition(partition_index=index, from_offset=start) for index, start in wanted]
    request = DescribeSegmentsRequest(topics=[SegmentsTopic(name=topic, partitions=rows)], segments_max=count)
    found: list[Any] = broker.ask(ApiKey.DESCRIBE_SEGMENTS, 0, request).topics[0].partitions
    return found


def activity(broker: UnitBroker, **fields: Any) -> Any:
    return broker.ask(ApiKey.DESCRIBE_BROKER_ACTIVITY, 0, DescribeBrokerActivityRequest(**fields))


async def test_segments_have_their_offsets_sizes_and_times(broker: UnitBroker) -> None:
    produce(broker, 1_000, 3_000, 2_000)
    (row,) = segments(broker, (0, -1))
    assert (row.error_code, row.segment_count, row.next_offset) == (0, 3, -1)
    assert [(one.base_offset, one.end_offset, one.is_active) for one in row.segments] == [
        (0, 1, False),
        (1, 2, False),
        (2, 3, True),
    ]
    assert [(one.first_timestamp, one.largest_timestamp) for one in row.segments] == [
        (1_000, 1_000),
        (3_000, 3_000),
        (2_000, 2_000),
    ]
    assert row.log_bytes == sum(one.log_bytes for one in row.segments) > 3 * 600_000


async def test_without_segments_the_log_has_its_offsets_and_what_was_appended(broker: UnitBroker) -> None:
    await broker.parts.lag.sample(broker.clock.monotonic_ms())
    produce(broker, 1_000, 3_000)
    broker.clock.ms += 5_000
    (row,) = segments(broker, (0, -1), count=0)
    assert (row.segments, row.segment_count) == ([], 2)
    assert (row.log_start_offset, row.high_watermark, row.log_end_offset) == (0, 2, 2)
    assert (row.appended, row.window_ms) == (2, 5_000)


async def test_what_is_not_replicated_yet_is_beyond_the_high_watermark() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        data = PartitionProduceData(index=0, records=build_batch([Record(0, 1, None, b"v")]))
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
        assert broker.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0].error_code == 0
        (row,) = segments(broker, (0, -1), count=0)
    assert (row.high_watermark, row.log_end_offset) == (0, 1)


async def test_an_empty_segment_has_no_times(broker: UnitBroker) -> None:
    (row,) = segments(broker, (1, -1))
    (only,) = row.segments
    assert (only.base_offset, only.end_offset, only.log_bytes) == (0, 0, 0)
    assert (only.first_timestamp, only.largest_timestamp, only.is_active) == (-1, -1, True)


async def test_pages_of_segments_together_are_all_of_them(broker: UnitBroker) -> None:
    produce(broker, *range(1, 8), size=700_000)
    start, bases = -1, []
    while True:
        (row,) = segments(broker, (0, start), count=3)
        assert row.segment_count == 7
        bases += [one.base_offset for one in row.segments]
        if row.next_offset < 0:
            break
        start = row.next_offset
    assert bases == list(range(7))


async def test_the_bound_is_of_the_whole_response_and_totals_are_there_beyond_it(broker: UnitBroker) -> None:
    produce(broker, 1, 2, 3)
    produce(broker, 1, 2, partition=1)
    first, second = segments(broker, (0, -1), (1, -1), count=3)
    assert (len(first.segments), first.next_offset) == (3, -1)
    assert (len(second.segments), second.next_offset, second.segment_count) == (0, 0, 2)
    assert second.log_bytes > 0


async def test_more_segments_than_the_bound_are_left_out(broker: UnitBroker) -> None:
    log = broker.parts.replicas.partition("orders", 0).log
    for number in range(SEGMENTS_MAX + 1):
        produce(broker, number, size=10)
        assert log.roll(broker.clock.now_ms())
    for count in (-1, 10_000):
        (row,) = segments(broker, (0, -1), count=count)
        assert (len(row.segments), row.next_offset) == (SEGMENTS_MAX, SEGMENTS_MAX)
        assert row.segment_count == SEGMENTS_MAX + 2


async def test_an_offset_within_a_segment_begins_with_that_segment(broker: UnitBroker) -> None:
    produce(broker, 1, 2, 3)
    (row,) = segments(broker, (0, 1))
    assert [one.base_offset for one in row.segments] == [1, 2]
    (beyond,) = segments(broker, (0, 1_000))
    assert [one.base_offset for one in beyond.segments] == [2]


async def test_a_partition_that_is_not_here_is_refused_by_itself(broker: UnitBroker) -> None:
    here, missing = segments(broker, (0, -1), (9, -1))
    assert (here.error_code, missing.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_before_it_is_ready_a_broker_has_no_uptime(broker: UnitBroker) -> None:
    assert activity(broker).uptime_ms == 0
    broker.parts.activity.ready()
    broker.clock.ms += 90_000
    found = activity(broker)
    assert (found.uptime_ms, found.broker_id, found.version) == (90_000, 1, __version__)
    assert [event.kind for event in found.events] == [EventKind.STARTED]


async def test_cpu_time_has_its_window(broker: UnitBroker) -> None:
    assert activity(broker).cpu_window_ms == 0
    broker.parts.activity.sample()
    broker.clock.ms += 20_000
    found = activity(broker)
    assert found.cpu_window_ms == 20_000
    assert 0 <= found.cpu_ms <= 20_000


async def test_open_connections_are_by_listener(broker: UnitBroker) -> None:
    broker.parts.activity.connections = lambda: {"CLIENTS": 3, "BROKERS": 1}
    assert [(row.name, row.connections) for row in activity(broker).listeners] == [("CLIENTS", 3), ("BROKERS", 1)]


async def test_what_retention_deletes_is_an_event(broker: UnitBroker) -> None:
    produce(broker, *range(1, 8), size=700_000)
    before = broker.parts.replicas.partition("orders", 0).log.size
    await broker.logs.tick(broker.clock.now_ms())
    broker.clock.ms += 3_600_000
    await broker.logs.tick(broker.clock.now_ms())
    after = broker.parts.replicas.partition("orders", 0).log.size
    (event,) = activity(broker).events
    assert (event.kind, event.topic, event.partitions) == (EventKind.SEGMENTS_DELETED, "orders", 1)
    assert event.began_at_ms == event.ended_at_ms == broker.clock.now_ms()
    assert event.bytes_removed == before - after > 0
    assert event.segments == event.bytes_removed // 700_000
    assert activity(broker, events_since_ms=event.ended_at_ms + 1).events == []
    assert activity(broker, events_max=0).events == []
    assert activity(broker, events_max=-7).events == []


async def test_a_compaction_is_an_event() -> None:
    async with a_broker({"log.segment.bytes": "1048576", "log.cleanup.policy": "compact"}) as broker:
        await broker.lead("orders", 1)
        for number in range(4):
            records = build_batch([Record(0, number, b"k", b"v" * 700_000)])
            data = PartitionProduceData(index=0, records=records)
            request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
            assert broker.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0].error_code == 0
        await broker.parts.replicas.partition("orders", 0).log.flush()
        assert await broker.parts.cleaner.clean_once()
        (event,) = activity(broker).events
    assert (event.kind, event.topic) == (EventKind.COMPACTED, "orders")
    assert event.segments == 2, "the third keeps its record, and is not written anew"
    assert event.bytes_removed > 1_000_000
