"""Where the leader's log begins, ends and diverges: requested for partitions that cannot be fetched without it.

The ends of epochs are requested before the first fetch, under protocols whose Fetch response does not say where two
logs diverge; the bounds of the log, when the leader has refused an offset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import LeaderEpoch, Offset
from sordini.replication.fetching.fetched_partitions import FetchedPartitions
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.fetching.messages import EARLIEST, LATEST, epoch_ends_request, offsets_request
from sordini.replication.fetching.partition_results import PartitionResults
from sordini.replication.fetching.session import TopicIdPartition
from sordini.replication.follower_log import restart_at
from sordini.replication.follower_truncation import EpochEnd, FetchStart, start_when_out_of_range
from sordini.storage.errors import StorageError


class LeaderLogBounds:
    """Requests them of one leader, and truncates by the responses."""

    def __init__(
        self,
        deps: FetcherDeps,
        fetched: FetchedPartitions,
        results: PartitionResults,
        send: Callable[[Any, int], Awaitable[Any]],
    ) -> None:
        """`send` sends a request in a version to the leader, and returns the response; it raises Unreachable."""
        self._deps = deps
        self._fetched = fetched
        self._results = results
        self._send = send

    async def request_epoch_ends(self) -> None:
        """Request where epochs ended in the leader's log, under protocols where the Fetch response does not say it."""
        deps = self._deps
        taken = self._fetched.take_epoch_end_requests()
        requests = [(fetched.topic_id_partition, request) for fetched, (_, request) in taken.items()]
        response = await self._send(epoch_ends_request(requests, deps.broker_id), deps.versions.offset_for_leader_epoch)
        rows = {(topic.topic, row.partition): row for topic in response.topics for row in topic.partitions}
        now_ms = deps.clock.now_ms()
        for fetched, (follower, _) in taken.items():
            row = rows.get(fetched.partition.name)
            if self._fetched.is_stale(fetched, follower):
                continue
            if row is None or row.error_code:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else row.error_code
                self._results.on_error_code(fetched, follower, code)
                continue
            try:
                self._results.truncate(fetched, follower, EpochEnd(row.leader_epoch, row.end_offset), now_ms)
            except (BrokerError, StorageError) as error:
                self._results.on_failure(fetched, error)

    async def handle_out_of_range(self) -> None:
        """Look up the bounds of the leader's logs, for the partitions whose offsets are outside of them."""
        taken = self._fetched.take_out_of_range()
        partitions = [(fetched.topic_id_partition, follower.leader_epoch) for fetched, follower in taken.items()]
        ends = await self._list_offsets(partitions, LATEST)
        starts = await self._list_offsets(partitions, EARLIEST)
        now_ms = self._deps.clock.now_ms()
        for fetched, follower in taken.items():
            name = fetched.partition.name
            if self._fetched.is_stale(fetched, follower):
                continue
            if name not in ends or name not in starts:
                self._results.delay(fetched)
                continue
            log_end = Offset(fetched.partition.log.log_end_offset)
            start = start_when_out_of_range(starts[name], ends[name], log_end)
            if start == FetchStart(log_end, truncate_fully=False):
                self._results.delay(fetched)  # By now the leader's log has it, or the error had another cause.
                continue
            try:
                restart_at(fetched.partition, follower, start, now_ms)
                self._results.log_truncation(fetched, log_end)
            except (BrokerError, StorageError) as error:
                self._results.on_failure(fetched, error)

    async def _list_offsets(
        self, partitions: Iterable[tuple[TopicIdPartition, LeaderEpoch]], timestamp: int
    ) -> dict[tuple[str, int], Offset]:
        """The leader's offsets, without the partitions that it refuses: their next fetch gets the error."""
        request = offsets_request(partitions, timestamp, self._deps.broker_id)
        response = await self._send(request, self._deps.versions.list_offsets)
        return {
            (topic.name, row.partition_index): Offset(row.offset)
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code and row.offset >= 0
        }
