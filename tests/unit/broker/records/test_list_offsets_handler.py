"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sordini.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.builders import BASE_TIMESTAMP, a_batch, an_idempotent_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker

LIST = ApiKey.LIST_OFFSETS
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def append(broker: UnitBroker, batch: bytes | None = None, index: int = 0) -> None:
    broker.parts.replicas.partition("orders", index).append(checked(batch), 0, all_replicas=False)


def listed(
    broker: UnitBroker, version: int, *requests_of: ListOffsetsPartition, **fields
) -> list[ListOffsetsPartitionResponse]:
    topics = [ListOffsetsTopic(name="orders", partitions=list(requests_of))]
    request = ListOffsetsRequest(replica_id=-1, topics=topics, **fields)
    return broker.ask(LIST, version, request).topics[0].partitions


def requested(timestamp: int, index: int = 0, **fields: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)


@pytest.mark.parametrize("version", range(1, 12))
async def test_both_ends_of_a_log_are_known_in_every_version(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=2)
        append(broker)
        (latest,) = listed(broker, version, requested(LATEST))
        (earliest,) = listed(broker, version, requested(EARLIEST))
        assert (latest.offset, earliest.offset, latest.timestamp) == (3, 0, -1)
        assert latest.leader_epoch == earliest.leader_epoch == (2 if version >= 4 else -1)


async def test_the_end_is_what_may_be_read_and_not_what_is_there() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        append(broker)
        assert listed(broker, 9, requested(LATEST))[0].offset == 0
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        append(broker, an_idempotent_batch(transactional=True))
        assert listed(broker, 9, requested(LATEST))[0].offset == 6
        assert listed(broker, 9, requested(LATEST), isolation_level=1)[0].offset == 3


async def test_the_record_with_the_latest_time_is_known_once_it_may_be_read() -> None:
    def newest(broker: UnitBroker, level: int) -> tuple[int, int]:
        (row,) = listed(broker, 9, requested(MAX_TIMESTAMP), isolation_level=level)
        return row.offset, row.timestamp

    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        append(broker)
        assert newest(broker, 0) == (-1, -1)
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        assert newest(broker, 1) == (2, BASE_TIMESTAMP + 2)
        append(broker, an_idempotent_batch(transactional=True))
        append(broker, a_batch(timestamp=BASE_TIMESTAMP + 1_000))
        assert newest(broker, 0) == (8, BASE_TIMESTAMP + 1_002)
        assert newest(broker, 1) == (-1, -1)


async def test_a_time_is_found_to_the_record() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        append(broker, a_batch(timestamp=BASE_TIMESTAMP + 1_000))
        found = [listed(broker, 9, requested(BASE_TIMESTAMP + ms))[0] for ms in (0, 1, 3, 1_001, 1_003)]
        assert [(row.error_code, row.offset) for row in found] == [(0, 0), (0, 1), (0, 3), (0, 4), (0, -1)]
        (newest,) = listed(broker, 9, requested(MAX_TIMESTAMP))
        assert (newest.offset, newest.timestamp) == (5, BASE_TIMESTAMP + 1_002)


@pytest.mark.parametrize(("timestamp", "oldest"), [(-3, 7), (-4, 8), (-5, 9)])
async def test_special_times_are_refused_before_the_version_that_brought_them(timestamp: int, oldest: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert listed(broker, oldest - 1, requested(timestamp))[0].error_code == ErrorCode.UNSUPPORTED_VERSION
        assert listed(broker, oldest, requested(timestamp))[0].error_code == 0


async def test_a_time_that_means_nothing_is_refused() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert listed(broker, 11, requested(-99))[0].error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_partition_requested_twice_is_refused_and_the_other_is_answered() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        rows = listed(broker, 9, requested(LATEST), requested(LATEST, 1), requested(EARLIEST))
        assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


async def test_each_partition_has_its_own_error() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=3)
        rows = listed(broker, 9, requested(LATEST, 7))
        assert (rows[0].error_code, rows[0].offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        codes = [listed(broker, 9, requested(LATEST, current_leader_epoch=epoch))[0].error_code for epoch in (2, 3, 4)]
        assert codes == [ErrorCode.FENCED_LEADER_EPOCH, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


async def test_version_0_lists_segments_from_the_newest_with_the_end_before_them() -> None:
    async with a_broker({"log.segment.bytes": str(len(a_batch()))}) as broker:
        await broker.lead("orders")
        for at_ms in (1_000, 2_000, 3_000):
            broker.disk.now_ms = lambda at_ms=at_ms: at_ms
            append(broker)

        def found(timestamp: int, count: int) -> list[int]:
            (row,) = listed(broker, 0, requested(timestamp, max_num_offsets=count))
            assert row.error_code == 0
            return row.old_style_offsets

        assert found(LATEST, 1) == [9]
        assert found(LATEST, 100) == [9, 6, 3, 0]
        assert found(LATEST, 2) == [9, 6]
        assert found(EARLIEST, 10) == [0]
        assert found(2_000, 10) == [3, 0], "segments last written by then"
        assert found(999, 10) == []
        assert found(LATEST, 0) == found(LATEST, -7) == []


async def test_version_0_of_an_empty_log_is_its_beginning() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        (row,) = listed(broker, 0, requested(LATEST, max_num_offsets=10))
        assert row.old_style_offsets == [0]


async def test_version_0_starts_where_the_log_does() -> None:
    async with a_broker({"log.segment.bytes": str(len(a_batch()))}) as broker:
        await broker.lead("orders")
        for _ in range(2):
            append(broker)
        broker.parts.replicas.partition("orders", 0).log.advance_log_start(1)
        (row,) = listed(broker, 0, requested(LATEST, max_num_offsets=10))
        assert row.old_style_offsets == [6, 3, 1]


async def test_an_epoch_ends_where_the_next_begins() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=1)
        append(broker)
        await broker.lead("orders", epoch=5)
        append(broker)

        def end_of(epoch: int, index: int = 0, current: int = -1):
            row = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[row])])
            found = broker.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request).topics[0].partitions[0]
            return found.error_code, found.leader_epoch, found.end_offset

        assert end_of(1) == (0, 1, 3)
        assert end_of(3) == (0, 1, 3), "an epoch without records is the one before it"
        assert end_of(5) == (0, 5, 6)
        assert end_of(9) == (0, -1, -1)
        assert end_of(1, current=4)[0] == ErrorCode.FENCED_LEADER_EPOCH
        assert end_of(1, index=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
