"""The requests of `sordini topics`: create, delete, add partitions, delete records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, check_topic, error_text, topic_advice
from sordini.admin.retried_changes import apply_change, partition_counts
from sordini.client.cluster import Link
from sordini.client.errors import Refused, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from sordini.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from sordini.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from sordini.protocol.types import TopicPartition

REQUEST_TIMEOUT_MS: Final = 15_000
"""The request's timeout_ms: after it the broker answers REQUEST_TIMED_OUT."""
UP_TO_HIGH_WATERMARK: Final = -1


async def create_topics(
    cluster: ClusterClient,
    names: Sequence[str],
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    validate_only: bool,
    if_not_exists: bool,
) -> list[dict[str, Any]]:
    """Create topics; a result for each. A count of -1 is the broker's default."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]

    async def ask(link: Link, left: list[str]) -> Sequence[CreatableTopicResult]:
        topics = [
            CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=replication_factor, configs=settings
            )
            for name in left
        ]
        answer: CreateTopicsResponse = await link.ask(
            CreateTopicsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS, validate_only=validate_only)
        )
        return answer.topics

    async def is_own_change(name: str, row: CreatableTopicResult, was_there: bool) -> bool:  # noqa: FBT001 - as it is called.
        if validate_only or was_there or row.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        row.num_partitions = (await partition_counts(cluster, [name])).get(name, -1)
        return partitions < 0 or row.num_partitions == partitions

    made = []
    for row in await apply_change(cluster, names, ask, lambda row: str(row.name), is_own_change):
        exists = row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        error = (
            None if exists and if_not_exists else error_text(f"topic '{row.name}'", row.error_code, row.error_message)
        )
        is_known = row.error_code == ErrorCode.NONE and row.num_partitions >= 0
        made.append(
            {
                "topic": row.name,
                "created": row.error_code == ErrorCode.NONE and not validate_only,
                "exists": exists,
                "partitions": row.num_partitions if is_known else None,
                "replication_factor": row.replication_factor if is_known else None,
                "error": error,
            }
        )
    return made


async def delete_topics(cluster: ClusterClient, names: Sequence[str], *, if_exists: bool) -> list[dict[str, Any]]:
    """Delete topics; a result for each."""

    async def ask(link: Link, left: list[str]) -> Sequence[DeletableTopicResult]:
        answer: DeleteTopicsResponse = await link.ask(
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in left], topic_names=left, timeout_ms=REQUEST_TIMEOUT_MS
            )
        )
        return answer.responses

    async def is_own_change(_name: str, row: DeletableTopicResult, was_there: bool) -> bool:  # noqa: FBT001 - as above.
        return was_there and row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    gone = []
    for row in await apply_change(cluster, names, ask, lambda row: str(row.name), is_own_change):
        is_missing = row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        reason = topic_advice(row.error_code) or row.error_message
        error = None if is_missing and if_exists else error_text(f"topic '{row.name}'", row.error_code, reason)
        gone.append({"topic": row.name, "deleted": row.error_code == ErrorCode.NONE, "error": error})
    return gone


async def add_partitions(cluster: ClusterClient, topic: str, count: int, *, validate_only: bool) -> None:
    """Increase a topic's partitions to `count`."""
    new_partitions = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[new_partitions], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=validate_only
    )

    async def ask(link: Link, _left: list[str]) -> Sequence[CreatePartitionsTopicResult]:
        answer: CreatePartitionsResponse = await link.ask(request)
        return answer.results

    async def is_own_change(name: str, row: CreatePartitionsTopicResult, _was_there: bool) -> bool:  # noqa: FBT001 - as above.
        if validate_only or row.error_code != ErrorCode.INVALID_PARTITIONS:
            return False
        return (await partition_counts(cluster, [name])).get(name) == count

    for row in await apply_change(cluster, [topic], ask, lambda row: str(row.name), is_own_change):
        check_topic(row.name, row.error_code, row.error_message)


async def delete_records(cluster: ClusterClient, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before an offset, per partition (UP_TO_HIGH_WATERMARK: all); the new log start offsets."""

    async def attempt() -> dict[TopicPartition, int]:
        starts: dict[TopicPartition, int] = {}
        for broker_id, partitions in (await cluster.leaders(before)).items():
            topics: dict[str, list[DeleteRecordsPartition]] = {}
            for partition in partitions:
                row = DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition])
                topics.setdefault(partition.topic, []).append(row)
            named = [DeleteRecordsTopic(name=name, partitions=rows) for name, rows in topics.items()]
            link = await cluster.broker(broker_id)
            answer: DeleteRecordsResponse = await link.ask(
                DeleteRecordsRequest(topics=named, timeout_ms=REQUEST_TIMEOUT_MS)
            )
            starts |= _starts(answer, before)
        return starts

    return await cluster.retry(attempt)


def _starts(answer: DeleteRecordsResponse, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    starts = {}
    for topic in answer.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                reason = f"offset {before[partition]} is not between its first record and its end"
                raise Refused(f"partition {partition}", row.error_code, reason)
            check(f"partition {partition}", row.error_code)
            starts[partition] = row.low_watermark
    return starts
