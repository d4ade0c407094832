"""Committed offsets of a consumer group as messages to send and answers to read. Pure.

They go to the group's coordinator (`routing.coordinator_request`), commits in versions COMMITS, fetches in FETCHES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.protocol.types import TopicPartition

COMMITS: Final = {"at_least": 2, "at_most": 9}
"""Versions without timestamps by the client, and with the names of topics."""
FETCHES: Final = {"at_least": 2, "at_most": 9}
"""Versions that can request all partitions (KIP-88), and have the names of topics."""


def commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    """A commit by no member: the coordinator takes it while the group has no members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        row = OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
        topics.setdefault(topic, []).append(row)
    named = [OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]
    return OffsetCommitRequest(group_id=group, topics=named)


def fetch_request(group: str, *, is_stable: bool = False) -> OffsetFetchRequest:
    """For all partitions of a group; `is_stable` ones have no transaction pending, from version 7 on."""
    return OffsetFetchRequest(
        group_id=group,
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None)],
        require_stable=is_stable,
    )


def group_in(response: Any) -> Any:
    """The one group in the response to a `fetch_request`, with error code and topics; that to a commit as it is."""
    # From version 8 on the response is a list of groups.
    return next(iter(getattr(response, "groups", ())), response)


def partitions_in(found: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """The rows of the partitions in a response to a commit, or in a group."""
    for topic in found.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row
