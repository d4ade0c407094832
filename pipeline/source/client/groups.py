"""Committed offsets of a consumer group: read from its coordinator, and committed there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordini.client.addresses import Address
from sordini.client.errors import Refused
from sordini.client.group_offsets import (
    COMMITS,
    FETCHES,
    commit_request,
    fetch_request,
    group_in,
    partitions_in,
)
from sordini.client.routing import coordinator_in, coordinator_request
from sordini.pipeline.errors import UnknownTopic
from sordini.pipeline.source.client.connection_pool import ConnectionPool
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


def coordinator(pool: ConnectionPool, group: str) -> Address:
    """Where the coordinator of a consumer group is; one request."""
    found = coordinator_in(pool.ask(coordinator_request(group)))
    pool.check(found.error_code, f"the coordinator of group '{group}'", found.error_message)
    return found.address


def committed(pool: ConnectionPool, group: str) -> dict[TopicPartition, int]:
    """All offsets that a group has committed; one attempt."""
    answer: Any = pool.ask(fetch_request(group), coordinator(pool, group), **FETCHES)
    found = group_in(answer)
    pool.check(found.error_code, f"the offsets of group '{group}'")
    offsets = {}
    for partition, row in partitions_in(found):
        pool.check(row.error_code, f"the offset of group '{group}' in {partition}")
        if row.committed_offset >= 0:
            offsets[partition] = row.committed_offset
    return offsets


def commit(pool: ConnectionPool, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members; one attempt. Raises UnknownTopic, and Refused for members."""
    answer: Any = pool.ask(commit_request(group, offsets), coordinator(pool, group), **COMMITS)
    for partition, row in partitions_in(answer):
        subject = f"committing group '{group}' in {partition}"
        if row.error_code in _HAS_MEMBERS:
            reason = "consumers are members of this group; take a group of your own"
            raise Refused(subject, row.error_code, reason)
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic([partition.topic])
        pool.check(row.error_code, subject)
