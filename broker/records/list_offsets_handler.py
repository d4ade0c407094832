"""ListOffsets and OffsetForLeaderEpoch: where a log begins and ends, and where an epoch ended.

A consumer (replica id -1) gets committed offsets, everything else the log end. Only the leader answers;
a debugging consumer (-2) is answered by each replica of its own log.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.broker.records.record_rules import LIST_OFFSETS_RULE
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import ClusterOr, on_topics
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sordini.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from sordini.protocol.records.jobs import Found, SearchJob
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget
from sordini.protocol.types import Offset
from sordini.replication.follower import Follower
from sordini.replication.leader import Leader
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.timestamp_lookup import search_log
from sordini.system.named_tuple import NamedTuple

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
OLDEST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

READ_COMMITTED = 1

CONSUMER: Final = -1
"""As replica id: reads what is committed."""
DEBUGGING_CONSUMER: Final = -2
"""As replica id: reads one replica, whatever its role."""

ROWS_CHECKED_PER_STEP = 10
"""Of rows that are only checked for duplicates."""


class _Range(NamedTuple):
    """How far the client may see the log."""

    term: Leader | Follower | None
    end: Offset
    is_late: bool
    """The high watermark is not known yet in this leader epoch (KIP-207)."""


class _Slow(NamedTuple):
    """A lookup that takes long, and where its row of the response goes."""

    topic: str
    row: ListOffsetsPartition
    answered: ListOffsetsTopicResponse
    number: int


class ListOffsetsHandler:
    """Looks up offsets; reads index files and, for a timestamp, one batch.

    A lookup by timestamp that takes long continues in a coroutine, where a child process decodes the batches.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        later: RespondLater,
        jobs: JobQueue,
    ) -> None:
        self._replicas = replicas
        self._later = later
        self._jobs = jobs

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.LIST_OFFSETS, self.list_offsets, self.list_error_response, LIST_OFFSETS_RULE),
            Route(
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                self.offset_for_leader_epoch,
                self.epochs_error_response,
                ClusterOr(AclOperation.CLUSTER_ACTION, on_topics(AclOperation.DESCRIBE)),
            ),
        ]

    def list_offsets(self, call: Call) -> Work[ListOffsetsResponse | DelayedResponse]:
        request: ListOffsetsRequest = call.body
        seen: set[tuple[str, int]] = set()
        twice: set[tuple[str, int]] = set()
        for topic in request.topics:
            for row in topic.partitions:
                (twice if (topic.name, row.partition_index) in seen else seen).add((topic.name, row.partition_index))
            yield 1 + len(topic.partitions) // ROWS_CHECKED_PER_STEP
        response = ListOffsetsResponse()
        slow: list[_Slow] = []
        budget = WorkBudget()
        for topic in request.topics:
            answered = ListOffsetsTopicResponse(name=topic.name)
            response.topics.append(answered)
            yield 1
            for row in topic.partitions:
                yield 1
                try:
                    if (topic.name, row.partition_index) in twice:
                        raise BrokerError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
                    answered.partitions.append(self._list_one(call, topic.name, row, budget))
                except BudgetExceeded:
                    slow.append(_Slow(topic.name, row, answered, len(answered.partitions)))
                    answered.partitions.append(_unlisted(row.partition_index, ErrorCode.NONE))
                except BrokerError as error:
                    answered.partitions.append(_unlisted(row.partition_index, error.code))
                except StorageError:
                    answered.partitions.append(_unlisted(row.partition_index, ErrorCode.KAFKA_STORAGE_ERROR))
        return self._later(call, self._list_slowly(call, response, slow)) if slow else response

    async def _list_slowly(self, call: Call, response: ListOffsetsResponse, slow: list[_Slow]) -> ListOffsetsResponse:
        allowance = CpuAllowance(0)
        for topic, row, answered, number in slow:
            try:
                answered.partitions[number] = await self._search_one(call, topic, row, allowance)
            except BrokerError as error:
                code = _not_available(call.version).code if error.code == RETRY else error.code
                answered.partitions[number] = _unlisted(row.partition_index, code)
            except StorageError:
                answered.partitions[number] = _unlisted(row.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
        return response

    def _list_one(
        self, call: Call, topic: str, row: ListOffsetsPartition, budget: WorkBudget
    ) -> ListOffsetsPartitionResponse:
        if row.timestamp < 0 and not _is_served(row.timestamp, call.version):
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {row.timestamp} is not supported")
        partition = self._replicas.partition(topic, row.partition_index)
        range_ = self._range(call, partition, row)
        if range_.is_late and row.timestamp == LATEST:
            raise _not_available(call.version)
        if call.version == 0:
            answer = ListOffsetsPartitionResponse(partition_index=row.partition_index)
            answer.old_style_offsets = _old_style(partition.log, row.timestamp, range_.end, row.max_num_offsets)
            return answer
        if partition.settings.rules.magic == 0 and row.timestamp not in (LATEST, EARLIEST):
            raise BrokerError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message format 0 has no timestamps")
        found = _lookup(partition.log, row.timestamp, range_.end, partition.leader_epoch, budget)
        return _listed(call, row, range_, found)

    def _range(self, call: Call, partition: Partition, row: ListOffsetsPartition) -> _Range:
        """How far the client may see the log; raises BrokerError where this broker may not answer."""
        if call.body.replica_id == DEBUGGING_CONSUMER:
            leader_here = partition.require_leader_or_follower(row.current_leader_epoch)
            return _Range(leader_here or partition.follower, Offset(partition.log.log_end_offset), is_late=False)
        leader = partition.require_leader(row.current_leader_epoch)
        if call.body.replica_id != CONSUMER:
            return _Range(leader, Offset(partition.log.log_end_offset), is_late=False)
        end = partition.readable_end(committed_only=call.body.isolation_level == READ_COMMITTED)
        # A new leader does not know its followers' log ends yet: its watermark may be below the one that the leader
        # before it returned (KIP-207).
        return _Range(leader, end, is_late=leader.high_watermark < leader.epoch_start_offset)

    async def _search_one(
        self, call: Call, topic: str, row: ListOffsetsPartition, allowance: CpuAllowance
    ) -> ListOffsetsPartitionResponse:
        """As `_list_one`, for a lookup by timestamp that takes long."""
        partition = self._replicas.partition(topic, row.partition_index)
        range_ = self._range(call, partition, row)

        async def search(batch: bytes, timestamp: int, offset: int) -> tuple[int, int] | None:
            outcome = await self._jobs.run(SearchJob(batch, timestamp, offset), allowance, call.peer.address)
            assert isinstance(outcome, Found)
            return outcome.record

        timestamp = None if row.timestamp == MAX_TIMESTAMP else row.timestamp
        found = await search_log(partition.log, timestamp, range_.end, search)
        # Another leader may have been elected meanwhile, and the log been truncated.
        if self._range(call, partition, row).term is not range_.term:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.name} has another leader epoch")
        return _listed(call, row, range_, found)

    def offset_for_leader_epoch(self, call: Call) -> Work[OffsetForLeaderEpochResponse]:
        request: OffsetForLeaderEpochRequest = call.body
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            answered = OffsetForLeaderTopicResult(topic=topic.topic)
            response.topics.append(answered)
            yield 1
            for row in topic.partitions:
                yield 1
                try:
                    answered.partitions.append(self._epoch_of_one(topic.topic, row))
                except BrokerError as error:
                    answered.partitions.append(EpochEndOffset(partition=row.partition, error_code=error.code))
        return response

    def _epoch_of_one(self, topic: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
        partition = self._replicas.partition(topic, row.partition)
        partition.require_leader(row.current_leader_epoch)
        epoch, end_offset = partition.log.epochs.end_offset(row.leader_epoch, partition.log.log_end_offset)
        return EpochEndOffset(partition=row.partition, leader_epoch=epoch, end_offset=end_offset)

    @staticmethod
    def list_error_response(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[_unlisted(row.partition_index, code) for row in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    @staticmethod
    def epochs_error_response(request: OffsetForLeaderEpochRequest, code: ErrorCode) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[EpochEndOffset(partition=row.partition, error_code=code) for row in topic.partitions],
                )
                for topic in request.topics
            ]
        )


def _not_available(version: int) -> BrokerError:
    code = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    return BrokerError(code, "the high watermark is not known yet in this leader epoch")


def _is_served(timestamp: int, version: int) -> bool:
    if timestamp in (LATEST, EARLIEST):
        return True
    return timestamp in OLDEST_VERSION and version >= OLDEST_VERSION[timestamp]


def _listed(
    call: Call, row: ListOffsetsPartition, range_: _Range, found: tuple[int, int, int] | None
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=row.partition_index)
    if range_.is_late and row.timestamp not in (EARLIEST, EARLIEST_LOCAL) and (found is None or found[1] >= range_.end):
        raise _not_available(call.version)
    if row.timestamp == MAX_TIMESTAMP and found is not None and found[1] >= range_.end:
        found = None  # It is looked for in the whole log; a reader may not know of a record that it cannot read yet.
    if found is not None:
        answer.timestamp, answer.offset, answer.leader_epoch = found
    return answer


def _lookup(log: Log, timestamp: int, end: int, leader_epoch: int, budget: WorkBudget) -> tuple[int, int, int] | None:
    """The timestamp, offset and leader epoch to answer with; None when no record matches."""
    if timestamp == LATEST:
        return (-1, end, leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        # An empty log has no epoch but the leader's.
        epoch = log.epochs.epoch_at(log.log_start_offset)
        return (-1, log.log_start_offset, leader_epoch if epoch < 0 else epoch)
    if timestamp == LATEST_TIERED:
        return None
    if timestamp == MAX_TIMESTAMP:
        return log.max_timestamp(budget)
    return log.find_timestamp(timestamp, end, budget)


def _old_style(log: Log, timestamp: int, end: int, count_max: int) -> list[int]:
    """The result of version 0: base offsets of segments last written by `timestamp`, newest first, after the end."""
    segments = [segment for segment in log.segments.all() if segment.base <= end]
    starts = [max(segment.base, log.log_start_offset) for segment in segments]
    times = [log.log_dir.disk.modified_ms(segment.handle.path) for segment in segments]
    if segments[-1].size:
        starts.append(end)
        times.append(times[-1])
    if timestamp == LATEST:
        kept = len(starts)
    elif timestamp == EARLIEST:
        kept = 1
    else:
        kept = max((number for number, time in enumerate(times, 1) if time <= timestamp), default=0)
    return starts[:kept][::-1][: max(count_max, 0)]


def _unlisted(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
