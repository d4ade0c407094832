"""Reads a slice of one partition, with Fetch requests to its leader: what a consumer returns, batch by batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.client.errors import check
from sordini.client.record_requests import FETCH_BY_NAME, fetch_request, fetched_partitions, only_partition
from sordini.protocol.errors import BrokerError
from sordini.protocol.messages.fetch import FetchResponse, PartitionData
from sordini.protocol.records.returned_records import ReturnedBatch, returned_batches
from sordini.protocol.types import TopicPartition

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
        leader: int | None = None,
    ) -> None:
        """`within_timeout` bounds each response; a `leader` that is known is not looked up before the first."""
        self._cluster = cluster
        self._partition = partition
        self._isolation_level = isolation_level
        self._within_timeout = within_timeout
        self._leader = leader

    async def batches(self, start_offset: int, end_offset: int) -> AsyncIterator[ReturnedBatch]:
        """Batches, of which the last one may reach beyond the end offset. Raises Failure."""
        offset, empty = start_offset, 0
        while offset < end_offset and empty < EMPTY_MAX:
            row = await self._within_timeout(self.fetched(offset))
            aborted = row.aborted_transactions or ()
            before, records = offset, cast("memoryview", row.records or b"")  # No slice of a file: it was received.
            try:
                for batch in returned_batches(records, offset, aborted):
                    offset = max(offset, batch.next_offset)
                    yield batch
            except BrokerError as error:
                raise Failure(f"partition {self._partition}, from offset {offset} on: {error}") from None
            empty = 0 if offset > before else empty + (row.high_watermark >= end_offset)

    async def fetched(self, offset: int) -> PartitionData:
        """One response: the records from an offset on, of which there may be none yet."""
        return await self._cluster.retry(lambda: self._attempt(offset))

    async def _attempt(self, offset: int) -> PartitionData:
        """One request, to the leader as it was known last. Raises Refused, after which it is looked up again."""
        if self._leader is None:
            (self._leader,) = await self._cluster.leaders([self._partition])
        leader, self._leader = self._leader, None
        request = fetch_request(
            {self._partition: offset}, FETCH_BYTES, wait_ms=WAIT_MS, isolation_level=self._isolation_level
        )
        link = await self._cluster.broker(leader)
        answer: FetchResponse = await link.ask(request, at_most=FETCH_BY_NAME["at_most"])
        subject = f"partition {self._partition}"
        check(subject, answer.error_code)
        row: PartitionData = only_partition(fetched_partitions(answer), subject)
        check(f"{subject} at offset {offset}", row.error_code)
        self._leader = leader
        return row
