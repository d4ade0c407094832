"""How far a consumer group has read, told to and asked of its coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordini.pipeline.errors import Refused, UnknownTopic
from sordini.pipeline.source.client.connection_pool import Cluster, check, grouped
from sordini.pipeline.source.client.settings import Address
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
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
"""The first OffsetFetch that can ask for all there are (KIP-88)."""
_KEPT_IN_BROKERS = 2
"""The first OffsetCommit without times that the client makes up."""
_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


def coordinator(cluster: Cluster, group: str) -> Address:
    """The broker that looks after a group, asked once."""
    answer: Any = cluster.ask(FindCoordinatorRequest(key=group, coordinator_keys=[group]))
    # Up to version 3 the answer is about the one key, from 4 on it is a list.
    found = answer.coordinators[0] if answer.coordinators else answer
    check(found.error_code, f"the coordinator of group '{group}'", found.error_message)
    return Address(found.host, found.port)


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """All offsets that a group has committed, asked once."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    address = coordinator(cluster, group)
    answer: Any = cluster.ask(request, address, at_least=_ALL_PARTITIONS, at_most=_VERSION_MAX)
    # From version 8 on the answer is a list of groups.
    found = answer.groups[0] if answer.groups else answer
    check(found.error_code, f"the offsets of group '{group}'")
    offsets = {}
    for topic in found.topics:
        for row in topic.partitions:
            check(row.error_code, f"the offset of group '{group}' in {topic.name}-{row.partition_index}")
            if row.committed_offset >= 0:
                offsets[TopicPartition(topic.name, row.partition_index)] = row.committed_offset
    return offsets


def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets as nobody's member, once. Raises UnknownTopic, and Refused when the group has members."""
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
        for topic, numbers in grouped(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    address = coordinator(cluster, group)
    answer: OffsetCommitResponse = cluster.ask(request, address, at_least=_KEPT_IN_BROKERS, at_most=_VERSION_MAX)
    for topic in answer.topics:
        for row in topic.partitions:
            subject = f"committing group '{group}' in {topic.name}-{row.partition_index}"
            if row.error_code in _HAS_MEMBERS:
                reason = "consumers are members of this group; take a group of your own"
                raise Refused(subject, row.error_code, reason)
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic([topic.name])
            check(row.error_code, subject)
