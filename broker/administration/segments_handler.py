"""DescribeSegments: the segments of this broker's replicas. Sordini's own request.

A closed segment's times are in its index, which is read at its first use: so a response has a bound, and each segment
costs SEGMENT_STEPS of the loop.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.administration.lag.append_watch import AppendWatch
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_topics
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_segments import (
    DescribeSegmentsRequest,
    DescribeSegmentsResponse,
    SegmentRow,
    SegmentsPartition,
    SegmentsPartitionResult,
    SegmentsTopicResult,
)
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Clock
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.segment import Segment

SEGMENTS_MAX: Final = 500
"""Of one response."""
SUMMED_PER_STEP: Final = 100
"""Segments of which the sizes are summed."""
SEGMENT_STEPS: Final = 20
"""About 0.2 ms for one whose index is read."""


class SegmentsHandler:
    """Reads what the logs know of their segments; no record but the header of each segment's first batch."""

    def __init__(self, replicas: ReplicaSet, appends: AppendWatch, clock: Clock) -> None:
        self._replicas = replicas
        self._appends = appends
        self._clock = clock

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_SEGMENTS, self.describe, self.error_response, on_topics(AclOperation.DESCRIBE))

    def describe(self, call: Call) -> Work[DescribeSegmentsResponse]:
        request: DescribeSegmentsRequest = call.body
        left = min(request.segments_max, SEGMENTS_MAX) if request.segments_max >= 0 else SEGMENTS_MAX
        response = DescribeSegmentsResponse()
        for topic in request.topics:
            answered = SegmentsTopicResult(name=topic.name)
            response.topics.append(answered)
            yield 1
            for row in topic.partitions:
                yield 1
                try:
                    found = yield from self._described(topic.name, row, left)
                except BrokerError as error:
                    found = _refused(row.partition_index, error.code)
                except StorageError:
                    found = _refused(row.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
                answered.partitions.append(found)
                left -= len(found.segments)
        return response

    def _described(self, topic: str, row: SegmentsPartition, count_max: int) -> Work[SegmentsPartitionResult]:
        """Raises BrokerError and StorageError."""
        partition = self._replicas.partition(topic, row.partition_index)
        log, found = partition.log, SegmentsPartitionResult(partition_index=row.partition_index)
        yield len(log.segments) // SUMMED_PER_STEP
        segments, first = log.segments.all(), max(log.segments.number_of(row.from_offset), 0)
        found.segment_count, found.log_bytes = len(segments), log.size
        found.log_start_offset, found.log_end_offset = log.log_start_offset, log.log_end_offset
        found.high_watermark = log.high_watermark
        if partition.leader is not None:
            found.high_watermark = partition.leader.high_watermark
            advance = self._appends.advance(partition, self._clock.monotonic_ms())
            found.appended, found.window_ms = advance.offsets, advance.window_ms
        for number in range(first, len(segments)):
            segment, is_active = segments[number], number + 1 == len(segments)
            if len(found.segments) >= count_max:
                found.next_offset = segment.base
                break
            yield SEGMENT_STEPS
            if log.is_closed:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{row.partition_index} was closed")
            end_offset = log.log_end_offset if is_active else segments[number + 1].base
            found.segments.append(_segment_row(log, segment, end_offset, is_active=is_active))
        return found

    @staticmethod
    def error_response(request: DescribeSegmentsRequest, code: ErrorCode) -> DescribeSegmentsResponse:
        return DescribeSegmentsResponse(
            topics=[
                SegmentsTopicResult(
                    name=topic.name, partitions=[_refused(row.partition_index, code) for row in topic.partitions]
                )
                for topic in request.topics
            ]
        )


def _segment_row(log: Log, segment: Segment, end_offset: int, *, is_active: bool) -> SegmentRow:
    """Raises BrokerError and StorageError. A segment that was deleted meanwhile has no times."""
    row = SegmentRow(base_offset=segment.base, end_offset=end_offset, log_bytes=segment.size, is_active=is_active)
    try:
        segment.load(log.config.index_interval_bytes)
        row.first_timestamp = segment.first_batch_timestamp()
        row.largest_timestamp = segment.max_timestamp
    except FileNotFoundError:
        return row
    except OSError as error:
        raise log.log_dir.classify(error) from error
    return row


def _refused(index: int, code: ErrorCode) -> SegmentsPartitionResult:
    return SegmentsPartitionResult(partition_index=index, error_code=code)
