"""Committed offsets of a consumer group: read from its coordinator, and committed there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordini.client.addresses import Address
from sordini.client.routing import coordinator_in, coordinator_request
from sordini.pipeline.errors import Refused, UnknownTopic
from sordini.pipeline.source.client.connection_pool import ConnectionPool, partitions_by_topic
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.protocol.types import TopicPartition

_VERSION_MAX = 9
"""Of OffsetCommit and OffsetFetch: from 10 on they name topics by their ids."""
_ALL_PARTITIONS = 2
"""The first OffsetFetch that can request all partitions (KIP-88)."""
_WITHOUT_TIMESTAMPS = 2
"""The first OffsetCommit without timestamps by the client."""
_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


def coordinator(pool: ConnectionPool, group: str) -> Address:
    """Where the coordinator of a consumer group is; one request."""
    found = coordinator_in(pool.ask(coordinator_request(group)))
    pool.check(found.error_code, f"the coordinator of group '{group}'", found.error_message)
    return found.address


def committed(pool: ConnectionPool, group: str) -> dict[TopicPartition, int]:
    """All offsets that a group has committed; one attempt."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    address = coordinator(pool, group)
    answer: Any = pool.ask(request, address, at_least=_ALL_PARTITIONS, at_most=_VERSION_MAX)
    # From version 8 on the answer is a list of groups.
    found = answer.groups[0] if answer.groups else answer
    pool.check(found.error_code, f"the offsets of group '{group}'")
    offsets = {}
    for topic in found.topics:
        for row in topic.partitions:
            pool.check(row.error_code, f"the offset of group '{group}' in {topic.name}-{row.partition_index}")
            if row.committed_offset >= 0:
                offsets[TopicPartition(topic.name, row.partition_index)] = row.committed_offset
    return offsets


def commit(pool: ConnectionPool, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members; one attempt. Raises UnknownTopic, and Refused for members."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offsets[TopicPartition(topic, number)]
                )
                for number in numbers
            ],
        )
        for topic, numbers in partitions_by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    address = coordinator(pool, group)
    answer: OffsetCommitResponse = pool.ask(request, address, at_least=_WITHOUT_TIMESTAMPS, at_most=_VERSION_MAX)
    for topic in answer.topics:
        for row in topic.partitions:
            subject = f"committing group '{group}' in {topic.name}-{row.partition_index}"
            if row.error_code in _HAS_MEMBERS:
                reason = "consumers are members of this group; take a group of your own"
                raise Refused(subject, row.error_code, reason)
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic([topic.name])
            pool.check(row.error_code, subject)
