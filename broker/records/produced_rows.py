"""Rows of Produce, as a request names them and as its response reports them."""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from sordini.replication.partition import Partition

BEFORE_THE_LOG = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors that are answered without the log start offset, as by Apache Kafka."""


def names_a_partition_twice(request: ProduceRequest) -> bool:
    """Whether a partition is named twice: Apache Kafka silently drops the first one's records."""
    seen: set[tuple[str, bytes, int]] = set()
    count = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            seen.add((topic.name, topic.topic_id, data.index))
            count += 1
    return len(seen) != count


def bound_record_errors(response: ProduceResponse) -> None:
    """List no more invalid records in a response than for one partition; the error messages have the counts."""
    left = RecordsRefused.LISTED_MAX
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.record_errors:
                del answer.record_errors[left:]
                left -= len(answer.record_errors)


def refused_row(index: int, error: BrokerError, partition: Partition | None) -> PartitionProduceResponse:
    """One partition's error, with the log start offset if the error is about the log."""
    has_log_start = partition is not None and error.code not in BEFORE_THE_LOG
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=partition.log.log_start_offset if partition is not None and has_log_start else -1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=why)
            for batch_index, why in (error.records if isinstance(error, RecordsRefused) else ())
        ],
        error_message=str(error),
    )
