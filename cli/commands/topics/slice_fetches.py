"""Reads a slice of one partition, with Fetch requests to its leader: what a consumer returns, batch by batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

from sordini.cli.cluster_client import ClusterClient, check, only_row
from sordini.cli.common.options import Failure
from sordini.protocol.errors import BrokerError
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from sordini.protocol.records.returned_records import ReturnedBatch, returned_batches
from sordini.protocol.types import TopicPartition

NEWEST_WITH_NAMES: Final = 12
"""Later versions of Fetch name topics by their ids."""
FETCH_BYTES: Final = 1 << 20
WAIT_MS: Final = 500
EMPTY_MAX: Final = 3
"""Responses in a row without records, after which there are none: a compacted log may end before the end offset."""


class SliceFetches:
    """The records of one partition from an offset on, below an end offset that the leader serves."""

    def __init__(
        self,
        cluster: ClusterClient,
        partition: TopicPartition,
        isolation_level: int,
        within_timeout: Callable[[Awaitable[PartitionData]], Awaitable[PartitionData]],
    ) -> None:
        """`within_timeout` bounds each response."""
        self._cluster = cluster
        self._partition = partition
        self._isolation_level = isolation_level
        self._within_timeout = within_timeout
        self._leader: int | None = None

    async def batches(self, start_offset: int, end_offset: int) -> AsyncIterator[ReturnedBatch]:
        """Batches, of which the last one may reach beyond the end offset. Raises Failure."""
        offset, empty = start_offset, 0
        while offset < end_offset and empty < EMPTY_MAX:
            row = await self._within_timeout(self._fetched(offset))
            aborted = row.aborted_transactions or ()
            before, records = offset, cast("memoryview", row.records or b"")  # No slice of a file: it was received.
            try:
                for batch in returned_batches(records, offset, aborted):
                    offset = max(offset, batch.next_offset)
                    yield batch
            except BrokerError as error:
                raise Failure(f"partition {self._partition}, from offset {offset} on: {error}") from None
            empty = 0 if offset > before else empty + (row.high_watermark >= end_offset)

    async def _fetched(self, offset: int) -> PartitionData:
        return await self._cluster.retry(lambda: self._attempt(offset))

    async def _attempt(self, offset: int) -> PartitionData:
        """One request, to the leader as it was known last. Raises Refused, after which it is looked up again."""
        if self._leader is None:
            (self._leader,) = await self._cluster.leaders([self._partition])
        leader, self._leader = self._leader, None
        wanted = FetchPartition(
            partition=self._partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            isolation_level=self._isolation_level,
            topics=[FetchTopic(topic=self._partition.topic, partitions=[wanted])],
        )
        link = await self._cluster.broker(leader)
        answer: FetchResponse = await link.ask(request, at_most=NEWEST_WITH_NAMES)
        subject = f"partition {self._partition}"
        check(subject, answer.error_code)
        row = only_row(only_row(answer.responses, subject).partitions, subject)
        check(f"{subject} at offset {offset}", row.error_code)
        self._leader = leader
        return row
