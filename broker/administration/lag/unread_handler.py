"""DescribeUnreadRecords: the oldest record that a group has not read. Sordini's own request, for `groups lag`.

A row costs one lookup in an index and a page of the log, and that only where there is something to read.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.administration.lag.append_watch import AppendWatch
from sordini.broker.administration.lag.offset_history import AgeBounds
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_topics
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_unread_records import (
    DescribeUnreadRecordsRequest,
    DescribeUnreadRecordsResponse,
    UnreadRecordsPartition,
    UnreadRecordsPartitionResult,
    UnreadRecordsTopicResult,
)
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.partition import Partition
from sordini.replication.ports import Clock
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError
from sordini.storage.oldest_record import OldestRecord, oldest_record

READ_UNCOMMITTED: Final = 0
STEPS_PER_ROW: Final = 10
"""About a tenth of a millisecond, where a batch is found by its index."""
NOT_KNOWN: Final = -1


class UnreadRecordsHandler:
    """Reads headers of batches, and what was seen of the log ends."""

    def __init__(self, replicas: ReplicaSet, appends: AppendWatch, clock: Clock) -> None:
        self._replicas = replicas
        self._appends = appends
        self._clock = clock

    def route(self) -> Route:
        return Route(
            ApiKey.DESCRIBE_UNREAD_RECORDS, self.describe, self.error_response, on_topics(AclOperation.DESCRIBE)
        )

    def describe(self, call: Call) -> Work[DescribeUnreadRecordsResponse]:
        request: DescribeUnreadRecordsRequest = call.body
        committed_only = request.isolation_level != READ_UNCOMMITTED
        response = DescribeUnreadRecordsResponse(now_ms=self._clock.now_ms())
        for topic in request.topics:
            answered = UnreadRecordsTopicResult(name=topic.name)
            response.topics.append(answered)
            yield 1
            for row in topic.partitions:
                yield STEPS_PER_ROW
                try:
                    answered.partitions.append(self._described(topic.name, row, committed_only=committed_only))
                except BrokerError as error:
                    answered.partitions.append(_refused(row.partition_index, error.code))
                except StorageError:
                    answered.partitions.append(_refused(row.partition_index, ErrorCode.KAFKA_STORAGE_ERROR))
        return response

    def _described(
        self, topic: str, row: UnreadRecordsPartition, *, committed_only: bool
    ) -> UnreadRecordsPartitionResult:
        partition = self._replicas.partition(topic, row.partition_index)
        leader = partition.require_leader()
        monotonic_ms, log = self._clock.monotonic_ms(), partition.log
        advance = self._appends.advance(partition, monotonic_ms)
        stable = log.last_stable_offset(leader.high_watermark)
        found = UnreadRecordsPartitionResult(
            partition_index=row.partition_index,
            log_start_offset=log.log_start_offset,
            high_watermark=leader.high_watermark,
            last_stable_offset=stable,
            appended=advance.offsets,
            window_ms=advance.window_ms,
        )
        start, end = max(row.offset, log.log_start_offset), stable if committed_only else leader.high_watermark
        oldest = oldest_record(log, start, end, committed_only=committed_only) if start < end else None
        if oldest is not None:
            found.record_offset, found.is_record_exact = oldest.offset, oldest.is_exact
            found.timestamp, found.timestamp_type = oldest.timestamp, int(oldest.is_log_append_time)
            age = self._age(partition, oldest, monotonic_ms)
            found.appended_age_min_ms = NOT_KNOWN if age.at_least_ms is None else age.at_least_ms
            found.appended_age_max_ms = NOT_KNOWN if age.at_most_ms is None else age.at_most_ms
        return found

    def _age(self, partition: Partition, oldest: OldestRecord, monotonic_ms: int) -> AgeBounds:
        """How long ago it was appended.

        The leader wrote the time of an append into records of LogAppendTime. Of what was there before this broker
        watched, the file's last change says that it was not appended later: on each replica, and after a restart.
        """
        now_ms = self._clock.now_ms()
        if oldest.is_log_append_time and oldest.timestamp >= 0:
            age_ms = max(0, now_ms - oldest.timestamp)
            return AgeBounds(age_ms, age_ms)
        age = self._appends.age_of(partition, oldest.offset, monotonic_ms)
        if not self._appends.is_older_than_watch(partition, oldest.offset):
            return age
        try:
            of_file_ms = now_ms - partition.log.log_dir.disk.modified_ms(oldest.segment.handle.path)
        except OSError:
            return age
        return AgeBounds(max(of_file_ms, age.at_least_ms or 0, 0), age.at_most_ms)

    @staticmethod
    def error_response(request: DescribeUnreadRecordsRequest, code: ErrorCode) -> DescribeUnreadRecordsResponse:
        return DescribeUnreadRecordsResponse(
            topics=[
                UnreadRecordsTopicResult(
                    name=topic.name,
                    partitions=[_refused(row.partition_index, code) for row in topic.partitions],
                )
                for topic in request.topics
            ]
        )


def _refused(index: int, code: ErrorCode) -> UnreadRecordsPartitionResult:
    return UnreadRecordsPartitionResult(partition_index=index, error_code=code)
