"""DeleteRecords and DescribeProducers.

DescribeProducers is answered by each replica of what its own log holds, by followers, too: the tools that look for
hanging transactions ask the broker that they are given.

DeleteRecords advances the log start offset in the leader's memory and waits for no other replica. The offset reaches
the disk with the next checkpoint of log start offsets, and at a clean stop: as with Apache Kafka, after a kill before
that deleted records may be readable again (`storage/log_jobs.py`, `storage/log_directory.py`). Followers learn of it
from their next fetch (`replication/follower_log.py`).
"""

from __future__ import annotations

from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import check_name_repeats
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_topics
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from sordini.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.metadata_store.topics import check_topic_name
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet

HIGH_WATERMARK = -1
NO_OFFSET = -1
DELETION_STEPS = 5
"""Advancing the log start may delete segments, which are renamed."""


class RecordsHandler:
    """Serves both from the replicas on this broker."""

    def __init__(self, replicas: ReplicaSet) -> None:
        self._replicas = replicas

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.DELETE_RECORDS, self.delete, self.delete_error_response, on_topics(AclOperation.DELETE)),
            Route(
                ApiKey.DESCRIBE_PRODUCERS,
                self.describe_producers,
                self.describe_error_response,
                on_topics(AclOperation.READ),
            ),
        ]

    def delete(self, call: Call) -> Work[DeleteRecordsResponse]:
        request: DeleteRecordsRequest = call.body
        # A partition that is named twice is answered once, for its last offset.
        offsets: dict[str, dict[int, int]] = {}
        for topic in request.topics:
            asked = offsets.setdefault(topic.name, {})
            for row in topic.partitions:
                asked[row.partition_index] = row.offset
                yield 1
            yield 1
        response = DeleteRecordsResponse()
        for name, rows in offsets.items():
            if not rows:
                continue
            result = DeleteRecordsTopicResult(name=name)
            response.topics.append(result)
            for index, offset in rows.items():
                result.partitions.append(self._delete_one(name, index, offset))
                yield DELETION_STEPS
        return response

    def _delete_one(self, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
        try:
            partition = self._replicas.partition(topic, index)
            start = _delete_below(partition, None if offset == HIGH_WATERMARK else offset)
        except BrokerError as error:
            return _not_deleted(index, error.code)
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start)

    def describe_producers(self, call: Call) -> Work[DescribeProducersResponse]:
        request: DescribeProducersRequest = call.body
        yield from check_name_repeats(
            (topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )
        response = DescribeProducersResponse()
        for topic in request.topics:
            described = TopicResponse(name=topic.name)
            response.topics.append(described)
            yield 1
            for index in topic.partition_indexes:
                described.partitions.append((yield from self._producers_of(topic.name, index)))
        return response

    def _producers_of(self, topic: str, index: int) -> Work[PartitionResponse]:
        yield 1
        try:
            check_topic_name(topic)
            partition = self._replicas.partition(topic, index)
            partition.require_leader_or_follower()
        except BrokerError as error:
            return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
        answer = PartitionResponse(partition_index=index)
        for entry in list(partition.log.producers.entries()):
            answer.active_producers.append(
                ProducerState(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=entry.transaction_first_offset,
                )
            )
            yield 1
        return answer

    @staticmethod
    def delete_error_response(request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[_not_deleted(row.partition_index, code) for row in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    @staticmethod
    def describe_error_response(request: DescribeProducersRequest, code: ErrorCode) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(partition_index=index, error_code=code) for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )


def _delete_below(partition: Partition, before: int | None) -> int:
    """Delete the records below an offset, or below the high watermark; the new log start offset.

    Raises BrokerError: INVALID_TOPIC_EXCEPTION for an internal topic, POLICY_VIOLATION for one that is only
    compacted, OFFSET_OUT_OF_RANGE for an offset above the high watermark.
    """
    high_watermark = partition.require_leader().high_watermark
    topic = partition.name.topic
    if partition.is_internal:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} cannot be deleted")
    if not partition.log.config.cleanup_delete:
        raise BrokerError(ErrorCode.POLICY_VIOLATION, f"the cleanup.policy of {topic} is not delete")
    end = high_watermark if before is None else before
    if not 0 <= end <= high_watermark:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition.name} can be deleted up to {high_watermark}")
    partition.log.advance_log_start(end)
    return partition.log.log_start_offset


def _not_deleted(index: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_OFFSET, error_code=code)
