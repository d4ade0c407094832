"""The requests of `sordini groups`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups.group_description import CLASSIC, DEAD, describe_group
from sordini.client.errors import Disconnected, Refused, check
from sordini.client.group_offsets import fetch_request
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from sordini.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from sordini.protocol.messages.offset_fetch import OffsetFetchResponse
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

NAMED_TOPICS: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later ones take their ids."""
STATES_FILTERED: Final = 4
TYPES_FILTERED: Final = 5
"""The first versions of ListGroups with these filters."""


class CommittedOffset(NamedTuple):
    """A group's committed offset of one partition."""

    offset: int
    metadata: str


async def list_groups(cluster: ClusterClient, states: Sequence[str], types: Sequence[str]) -> list[dict[str, Any]]:
    """The groups of all brokers, by name; empty filters let all through."""
    wanted = {kind.lower() for kind in types}

    async def attempt() -> list[dict[str, Any]]:
        found = []
        for broker_id, link in (await cluster.brokers()).items():
            knows_types = link.serves(ApiKey.LIST_GROUPS, TYPES_FILTERED)
            request = ListGroupsRequest(states_filter=list(states), types_filter=list(types) if knows_types else [])
            answer: ListGroupsResponse = await link.ask(request, at_least=STATES_FILTERED if states else 0)
            check(f"broker {broker_id}", answer.error_code)
            for row in answer.groups:
                # A broker that says no types is older than the other kinds of groups.
                kind = row.group_type.lower() if knows_types else CLASSIC
                if wanted and kind not in wanted:
                    continue
                found.append(
                    {
                        "group": row.group_id,
                        "type": kind or None,
                        "state": row.group_state or None,
                        "protocol": row.protocol_type,
                        "coordinator": broker_id,
                    }
                )
        return sorted(found, key=lambda row: str(row["group"]))

    return await cluster.retry(attempt)


async def committed_offsets(
    cluster: ClusterClient, group: str, *, is_stable: bool = False
) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group; `is_stable` waits for transactions that are about to commit some (KIP-447)."""

    async def attempt() -> dict[TopicPartition, CommittedOffset]:
        link = await cluster.coordinator(group)
        request = fetch_request(group, is_stable=is_stable)
        answer: OffsetFetchResponse = await link.ask(request, at_most=NAMED_TOPICS)
        # Up to version 7 the response is about one group, from version 8 it is a list.
        of_group: Any = answer.groups[0] if answer.groups else answer
        check(f"group '{group}'", of_group.error_code)
        found = {}
        for topic in of_group.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                check(f"the offset of {partition}", row.error_code)
                if row.committed_offset >= 0:
                    found[partition] = CommittedOffset(row.committed_offset, row.metadata or "")
        return found

    return await cluster.retry(attempt)


async def commit_offsets(cluster: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics.setdefault(topic, []).append(row)
    named = [OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]

    async def attempt() -> None:
        link = await cluster.coordinator(group)
        answer: OffsetCommitResponse = await link.ask(
            OffsetCommitRequest(group_id=group, topics=named), at_most=NAMED_TOPICS
        )
        for topic in answer.topics:
            for row in topic.partitions:
                if row.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    reason = "members have joined meanwhile; stop them first"
                    raise Refused(f"group '{group}'", row.error_code, reason)
                check(f"the offset of {TopicPartition(topic.name, row.partition_index)}", row.error_code)

    await cluster.retry(attempt)


async def delete_groups(cluster: ClusterClient, groups: Iterable[str]) -> list[dict[str, Any]]:
    """Delete groups with their offsets, one after another; a result for each."""
    gone = []
    for group in groups:
        error = None
        try:
            await _delete_group(cluster, group)
        except (Refused, Failure) as refused:
            error = str(refused)
        gone.append({"group": group, "deleted": error is None, "error": error})
    return gone


async def _delete_group(cluster: ClusterClient, group: str) -> None:
    """Raises Refused, except if an earlier attempt whose answer was lost has deleted the group."""
    was_there = (await describe_group(cluster, group)).state != DEAD
    may_be_done = False

    async def attempt() -> None:
        nonlocal may_be_done
        link = await cluster.coordinator(group)
        try:
            answer: DeleteGroupsResponse = await link.ask(DeleteGroupsRequest(groups_names=[group]))
        except Disconnected:
            may_be_done = was_there
            raise
        for row in answer.results:
            if not (may_be_done and row.error_code == ErrorCode.GROUP_ID_NOT_FOUND):
                check_group(row.group_id, row.error_code, row.error_message)

    await cluster.retry(attempt)


async def delete_offsets(cluster: ClusterClient, group: str, partitions: Sequence[TopicPartition]) -> None:
    """Delete a group's committed offsets of some partitions."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    named = [OffsetDeleteRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]

    async def attempt() -> None:
        link = await cluster.coordinator(group)
        answer: OffsetDeleteResponse = await link.ask(OffsetDeleteRequest(group_id=group, topics=named))
        check_group(group, answer.error_code)
        for topic in answer.topics:
            for row in topic.partitions:
                subject = f"the offset of {TopicPartition(topic.name, row.partition_index)}"
                is_read = row.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                check(
                    subject, row.error_code, "members of the group read the topic; stop them first" if is_read else None
                )

    await cluster.retry(attempt)


def check_group(group: str, code: int, broker_message: str | None = None) -> None:
    """Raise Refused for a group that cannot be changed, with advice where there is some, else the broker's message."""
    reason = {
        ErrorCode.NON_EMPTY_GROUP.value: "it has members; stop them first",
        ErrorCode.GROUP_ID_NOT_FOUND.value: "there is no such group; `sordini groups list` lists the groups",
    }.get(code, broker_message)
    check(f"group '{group}'", code, reason)
