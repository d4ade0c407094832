"""DescribeUnreadRecords and DescribeGroupProgress, as a broker answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_group_progress import DescribeGroupProgressRequest
from sordini.protocol.messages.describe_unread_records import (
    DescribeUnreadRecordsRequest,
    UnreadRecordsPartition,
    UnreadRecordsTopic,
)
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from tests.support.unit_broker import UnitBroker, a_broker
from tests.unit.storage.test_aborted_transactions import begin

SECOND = 1_000


@pytest.fixture
async def broker() -> AsyncIterator[UnitBroker]:
    async with a_broker() as made:
        yield made


def produce(broker: UnitBroker, *times: int, topic: str = "orders") -> None:
    batch = build_batch([Record(number, time, None, b"v") for number, time in enumerate(times)])
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    assert broker.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses[0].error_code == 0


def unread(broker: UnitBroker, *offsets: int, topic: str = "orders", isolation_level: int = 1) -> list[Any]:
    rows = [UnreadRecordsPartition(partition_index=0, offset=offset) for offset in offsets]
    request = DescribeUnreadRecordsRequest(
        isolation_level=isolation_level, topics=[UnreadRecordsTopic(name=topic, partitions=rows)]
    )
    answer = broker.ask(ApiKey.DESCRIBE_UNREAD_RECORDS, 0, request)
    assert answer.now_ms == broker.clock.now_ms()
    found: list[Any] = answer.topics[0].partitions
    return found


async def sample(broker: UnitBroker, after_ms: int = SECOND) -> None:
    broker.clock.ms += after_ms
    await broker.parts.lag.sample(broker.clock.monotonic_ms())


async def test_the_oldest_unread_record_has_its_own_time_and_the_age_of_its_append(broker: UnitBroker) -> None:
    await broker.lead("orders")
    await sample(broker)
    produce(broker, 5_000, 9_000)
    await sample(broker)
    await sample(broker, 20 * SECOND)
    first, second, end = unread(broker, 0, 1, 2)
    assert (first.record_offset, first.timestamp, first.timestamp_type) == (0, 5_000, 0)
    assert (first.appended_age_min_ms, first.appended_age_max_ms) == (20 * SECOND, 21 * SECOND)
    assert (second.record_offset, second.timestamp) == (1, 9_000)
    assert (end.record_offset, end.high_watermark, end.last_stable_offset) == (-1, 2, 2)
    assert (first.appended, first.window_ms) == (2, 21 * SECOND)


async def test_with_log_append_time_the_age_is_exact() -> None:
    async with a_broker({"log.message.timestamp.type": "LogAppendTime"}) as broker:
        await broker.lead("orders")
        produce(broker, 5)
        broker.clock.ms += 7 * SECOND
        (row,) = unread(broker, 0)
    assert row.timestamp_type == 1
    assert (row.appended_age_min_ms, row.appended_age_max_ms) == (7 * SECOND, 7 * SECOND)


async def test_of_what_was_there_before_the_first_sample_the_age_is_at_least_that_of_the_file(
    broker: UnitBroker,
) -> None:
    await broker.lead("orders")
    produce(broker, 5)
    path = broker.logs.logs()[0].segments.active.handle.path
    broker.disk.set_modified_ms(path, broker.clock.now_ms() - 3_600 * SECOND)
    await sample(broker)
    (row,) = unread(broker, 0)
    assert (row.appended_age_min_ms, row.appended_age_max_ms) == (3_601 * SECOND, -1)


async def test_an_offset_outside_of_the_log_is_answered_with_its_bounds(broker: UnitBroker) -> None:
    await broker.lead("orders")
    produce(broker, 1, 2, 3)
    broker.logs.logs()[0].log_start_offset = 2
    expired, unset, ahead = unread(broker, 0, -1, 99)
    assert [row.record_offset for row in (expired, unset, ahead)] == [2, 2, -1]
    assert {(row.log_start_offset, row.high_watermark) for row in (expired, unset, ahead)} == {(2, 3)}


async def test_nothing_behind_an_open_transaction_is_unread_to_readers_of_committed_records(broker: UnitBroker) -> None:
    await broker.lead("orders")
    begin(broker.logs.logs()[0], 5, 0)
    produce(broker, 1)
    (row,) = unread(broker, 0)
    assert (row.record_offset, row.last_stable_offset, row.high_watermark) == (-1, 0, 3)
    (row,) = unread(broker, 0, isolation_level=0)
    assert row.record_offset == 0


async def test_only_the_leader_answers(broker: UnitBroker) -> None:
    await broker.follow("orders")
    assert unread(broker, 0)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert unread(broker, 0, topic="gone")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_group_of_another_coordinator_is_refused_by_itself(broker: UnitBroker) -> None:
    request = DescribeGroupProgressRequest(groups=["billing", "shipping"])
    answer = broker.ask(ApiKey.DESCRIBE_GROUP_PROGRESS, 0, request)
    assert [(row.group_id, row.error_code) for row in answer.groups] == [
        ("billing", ErrorCode.NOT_COORDINATOR),
        ("shipping", ErrorCode.NOT_COORDINATOR),
    ]
