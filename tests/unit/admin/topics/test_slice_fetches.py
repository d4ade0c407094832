"""Reading a slice of a partition: its end, gaps, damage, and which broker is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.topics.slice_fetches import EMPTY_MAX, SliceFetches
from sordini.client.errors import Refused
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.types import TopicPartition

NAME = TopicPartition("orders", 0)


def row(data: bytes = b"", high_watermark: int = 10, error: int = 0) -> PartitionData:
    return PartitionData(partition_index=0, records=memoryview(data), high_watermark=high_watermark, error_code=error)


def batch(*offsets: int) -> bytes:
    return build_batch([Record(offset, 5, None, b"%d" % offset) for offset in offsets], base_offset=offsets[0])


class Leader:
    """A cluster of which the only broker answers with rows, one after another, and then as the last time."""

    def __init__(self, rows: Sequence[PartitionData]) -> None:
        self.rows = list(rows)
        self.asked: list[int] = []
        self.looked_up = 0

    async def leaders(self, partitions: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        self.looked_up += 1
        return {1: list(partitions)}

    async def broker(self, broker_id: int) -> Leader:
        assert broker_id == 1
        return self

    async def ask(self, request: FetchRequest, *, at_most: int) -> FetchResponse:
        assert at_most == 12
        self.asked.append(request.topics[0].partitions[0].fetch_offset)
        answer = self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]
        return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[answer])])

    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        """Again after NOT_LEADER_OR_FOLLOWER."""
        try:
            return await attempt()
        except Refused as refused:
            if refused.code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            return await attempt()


def read(leader: Leader, start: int, end: int) -> list[int]:
    """The offsets of what is read."""

    async def reading() -> list[int]:
        async def at_once(work: Awaitable[PartitionData]) -> PartitionData:
            return await work

        fetches = SliceFetches(cast("ClusterClient", leader), NAME, 1, at_once)
        return [one.offset async for found in fetches.batches(start, end) for one in found.records]

    return asyncio.run(reading())


def test_a_slice_is_read_from_its_begin_to_its_end() -> None:
    leader = Leader([row(batch(0, 1, 2) + batch(3, 4)), row(batch(5, 9))])
    assert read(leader, 1, 10) == [1, 2, 3, 4, 5, 9]
    assert (leader.asked, leader.looked_up) == ([1, 5], 1)


def test_a_batch_that_is_cut_off_is_fetched_again() -> None:
    leader = Leader([row(batch(0, 1) + batch(2, 3)[:-1]), row(batch(2, 3))])
    assert read(leader, 0, 4) == [0, 1, 2, 3]
    assert leader.asked == [0, 2]


def test_messages_of_old_formats_are_read() -> None:
    records = [Record(offset, 7, None, b"v") for offset in range(4)]
    leader = Leader([row(write_messages(records[:2], 0) + write_messages(records[2:], 1, codec=1))])
    assert read(leader, 1, 4) == [1, 2, 3]


def test_a_compacted_log_may_end_before_its_end_offset() -> None:
    leader = Leader([row(batch(0, 1)), row()])
    assert read(leader, 0, 10) == [0, 1]
    assert leader.asked == [0, *[2] * EMPTY_MAX]


def test_records_that_a_leader_does_not_serve_yet_are_waited_for() -> None:
    leader = Leader([*[row(high_watermark=0)] * (2 * EMPTY_MAX), row(batch(0, 1))])
    assert read(leader, 0, 2) == [0, 1]


def test_a_leader_is_looked_up_again_when_it_moves() -> None:
    leader = Leader([row(batch(0)), row(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), row(batch(1))])
    assert read(leader, 0, 2) == [0, 1]
    assert leader.looked_up == 2


def test_an_error_names_the_partition_and_the_offset() -> None:
    with pytest.raises(Refused, match=r"partition orders-0 at offset 3: .*OFFSET_OUT_OF_RANGE"):
        read(Leader([row(error=ErrorCode.OFFSET_OUT_OF_RANGE)]), 3, 4)
    damaged = bytearray(batch(3))
    damaged[-1] ^= 1
    with pytest.raises(
        Failure, match="partition orders-0, from offset 3 on: the CRC of the batch at offset 3 is wrong"
    ):
        read(Leader([row(bytes(damaged))]), 3, 4)
