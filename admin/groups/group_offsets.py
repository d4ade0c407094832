"""The committed offsets of a group beside the ends of the logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups.group_description import SHARE, GroupDescription, describe_group
from sordini.admin.groups.group_requests import committed_offsets, delete_offsets
from sordini.admin.partition_offsets import offset_ranges
from sordini.admin.selections import PartitionSelection
from sordini.admin.topics.topic_descriptions import partitions_of
from sordini.protocol.types import TopicPartition


async def offset_rows(cluster: ClusterClient, described: GroupDescription) -> list[dict[str, Any]]:
    """One row per partition with a committed offset or an assignment; those of deleted topics have no end offset."""
    committed = await committed_offsets(cluster, described.group)
    owners = {partition: member for member in described.members for partition in member.partitions or []}
    partitions = sorted({*committed, *owners})
    ends = await offset_ranges(cluster, await existing_partitions(cluster, partitions))
    rows = []
    for partition in partitions:
        offset = committed.get(partition)
        end = ends.get(partition)
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": offset.offset if offset else None,
                "end_offset": end.latest if end else None,
                "lag": max(0, end.latest - offset.offset) if end and offset else None,
                "metadata": offset.metadata if offset else None,
                "member_id": owner.member_id if owner else None,
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return rows


async def existing_partitions(cluster: ClusterClient, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Those of the partitions that there are."""
    names = {partition.topic for partition in partitions}
    found = await cluster.retry(lambda: cluster.metadata(names))
    there = {(topic.name, row.partition_index) for topic in found.topics for row in topic.partitions}
    return [partition for partition in partitions if tuple(partition) in there]


async def delete_selected_offsets(
    cluster: ClusterClient, group: str, wanted: Sequence[PartitionSelection]
) -> list[TopicPartition]:
    """Delete a group's committed offsets of the selected partitions, and return these."""
    if (await describe_group(cluster, group)).kind == SHARE:
        raise Failure(f"group '{group}' is a share group: `sordini share delete-offsets` deletes its offsets")
    partitions = await partitions_of(cluster, wanted)
    await delete_offsets(cluster, group, partitions)
    return partitions
