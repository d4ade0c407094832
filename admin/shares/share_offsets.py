"""The offsets of a share group: where each partition's unfinished records begin, and how many they are (KIP-932).

The *start offset* is the first offset that is not done: all before it are acknowledged, rejected, or gave up. The *lag*
is how many records from it on are not done (KIP-1226); brokers before DescribeShareGroupOffsets v1 do not know it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.groups.group_description import GroupDescription
from sordini.admin.groups.group_offsets import existing_partitions
from sordini.admin.groups.group_requests import check_group
from sordini.admin.partition_offsets import offset_ranges
from sordini.client.errors import check, only_row
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple


class ShareOffset(NamedTuple):
    """One partition of a share group; None is what is not decided or not known yet."""

    start: int | None
    lag: int | None


async def share_offsets(cluster: ClusterClient, group: str) -> dict[TopicPartition, ShareOffset]:
    """The partitions that a group has read or is to read. Raises Refused; a group that does not exist has none."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )

    async def attempt() -> dict[TopicPartition, ShareOffset]:
        link = await cluster.coordinator(group)
        answer: DescribeShareGroupOffsetsResponse = await link.ask(request)
        row = only_row(answer.groups, f"group '{group}'")
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        check_group(group, row.error_code, row.error_message)
        found = {}
        for topic in row.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic_name, one.partition_index)
                check(f"the offset of {partition}", one.error_code, one.error_message)
                found[partition] = ShareOffset(_known(one.start_offset), _known(one.lag))
        return found

    return await cluster.retry(attempt)


async def share_offset_rows(cluster: ClusterClient, described: GroupDescription) -> list[dict[str, Any]]:
    """One row per partition with an offset or a member; those of deleted topics have no end offset."""
    offsets = await share_offsets(cluster, described.group)
    readers: dict[TopicPartition, int] = {}
    for member in described.members:
        for partition in member.partitions or ():
            readers[partition] = readers.get(partition, 0) + 1
    partitions = sorted({*offsets, *readers})
    ends = await offset_ranges(cluster, await existing_partitions(cluster, partitions))
    rows = []
    for partition in partitions:
        offset, end = offsets.get(partition), ends.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": offset.start if offset else None,
                "end_offset": end.latest if end else None,
                "lag": offset.lag if offset else None,
                "members": readers.get(partition, 0),
            }
        )
    return rows


async def alter_share_offsets(cluster: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of a group without members. Raises Refused."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        row = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
        topics.setdefault(topic, []).append(row)
    named = [AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=rows) for name, rows in topics.items()]

    async def attempt() -> None:
        link = await cluster.coordinator(group)
        answer: AlterShareGroupOffsetsResponse = await link.ask(
            AlterShareGroupOffsetsRequest(group_id=group, topics=named)
        )
        check_group(group, answer.error_code, answer.error_message)
        for topic in answer.responses:
            for row in topic.partitions:
                subject = f"the offset of {TopicPartition(topic.topic_name, row.partition_index)}"
                check(subject, row.error_code, row.error_message)

    await cluster.retry(attempt)


async def delete_share_offsets(cluster: ClusterClient, group: str, topics: Sequence[str]) -> list[dict[str, Any]]:
    """Let a group without members forget topics; a result for each. Raises Refused."""
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in dict.fromkeys(topics)]

    async def attempt() -> list[dict[str, Any]]:
        link = await cluster.coordinator(group)
        answer: DeleteShareGroupOffsetsResponse = await link.ask(
            DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted)
        )
        check_group(group, answer.error_code, answer.error_message)
        return [_deletion(row.topic_name, row.error_code, row.error_message) for row in answer.responses]

    return await cluster.retry(attempt)


def _deletion(topic: str, code: int, message: str | None) -> dict[str, Any]:
    error = None
    if code != ErrorCode.NONE:
        error = f"topic '{topic}': {message or 'refused'} ({ErrorCode(code).name})"
    return {"topic": topic, "deleted": error is None, "error": error}


def _known(number: int) -> int | None:
    return None if number < 0 else number
