"""The output of `sordini groups`: a group with its lag and members, and the plan of a reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.cli.cluster_client import ClusterClient
from sordini.cli.commands.groups.group_requests import (
    DEAD,
    GroupDescription,
    committed_offsets,
    delete_offsets,
    describe_group,
)
from sordini.cli.commands.groups.reset_plan import PlannedReset, write_csv
from sordini.cli.commands.topics.topic_reports import partitions_of
from sordini.cli.common.argument_types import PartitionSelection
from sordini.cli.common.options import Failure
from sordini.cli.common.output import print_json, table
from sordini.cli.common.partition_offsets import offset_ranges
from sordini.cli.common.terminal import echo, echo_data, echo_lines
from sordini.protocol.printable import shown
from sordini.protocol.types import TopicPartition


async def describe_groups(cluster: ClusterClient, names: Sequence[str]) -> list[dict[str, Any]]:
    """Groups that must exist, each with its offsets, lag and members."""
    found = []
    for name in names:
        described = await describe_group(cluster, name)
        offsets = await _offsets(cluster, described)
        if described.state == DEAD and not offsets:
            raise Failure(f"group '{name}' does not exist; `sordini groups list` lists the groups")
        found.append(
            {
                "group": name,
                "state": described.state,
                "protocol": described.protocol_type or None,
                "assignor": described.protocol or None,
                "coordinator": described.coordinator,
                "offsets": offsets,
                "members": _members(described),
            }
        )
    return found


async def _offsets(cluster: ClusterClient, described: GroupDescription) -> list[dict[str, Any]]:
    """One row per partition with a committed offset or an assignment; those of deleted topics have no end offset."""
    committed = await committed_offsets(cluster, described.group)
    owners = {partition: member for member in described.members for partition in member.partitions or []}
    partitions = sorted({*committed, *owners})
    ends = await offset_ranges(cluster, await _existing(cluster, partitions))
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


async def _existing(cluster: ClusterClient, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    names = {partition.topic for partition in partitions}
    found = await cluster.retry(lambda: cluster.metadata(names))
    there = {(topic.name, row.partition_index) for topic in found.topics for row in topic.partitions}
    return [partition for partition in partitions if tuple(partition) in there]


def _members(described: GroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "partitions": None
            if member.partitions is None
            else [{"topic": topic, "partition": partition} for topic, partition in member.partitions],
        }
        for member in described.members
    ]


def group_text(group: dict[str, Any]) -> str:
    """The text of one group."""
    by = f" by {group['assignor']}" if group["assignor"] else ""
    lines = [f"Group        {shown(group['group'])}", f"State        {shown(group['state'] + by)}"]
    lines += [f"Coordinator  {shown(str(group['coordinator']))}", ""]
    if group["offsets"]:
        columns = ("topic", "partition", "committed_offset", "end_offset", "lag", "client_id", "host")
        head = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST"]
        lines.append(table(head, [[row[column] for column in columns] for row in group["offsets"]]))
    else:
        lines.append("There are no committed offsets.")
    if group["members"]:
        rows = [
            [member["member_id"], member["instance_id"], member["client_id"], member["host"], _assigned(member)]
            for member in group["members"]
        ]
        lines += ["", table(["MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNED"], rows)]
    return "\n".join(lines)


def _assigned(member: dict[str, Any]) -> str | None:
    """`orders:0,1 bills:2`."""
    if not member["partitions"]:
        return None
    topics: dict[str, list[str]] = {}
    for row in member["partitions"]:
        topics.setdefault(row["topic"], []).append(str(row["partition"]))
    return " ".join(f"{topic}:{','.join(partitions)}" for topic, partitions in topics.items())


async def delete_selected_offsets(
    cluster: ClusterClient, group: str, wanted: Sequence[PartitionSelection]
) -> list[TopicPartition]:
    """Delete a group's committed offsets of the selected partitions, and return these."""
    partitions = await partitions_of(cluster, wanted)
    await delete_offsets(cluster, group, partitions)
    return partitions


def print_reset_plan(group: str, lines: Sequence[PlannedReset], *, execute: bool, as_csv: bool, as_json: bool) -> None:
    """Print the plan, or the result, of a reset; notices go to stderr."""
    if as_json:
        print_json(
            {
                "group": group,
                "executed": execute,
                "offsets": [
                    {
                        "topic": line.partition.topic,
                        "partition": line.partition.partition,
                        "current_offset": line.current,
                        "wanted_offset": line.wanted,
                        "new_offset": line.new,
                        "lag_after": line.lag_after,
                        "clamped": line.is_clamped,
                    }
                    for line in lines
                ],
            }
        )
        return
    if as_csv:
        echo_data(write_csv(lines))
    else:
        rows = [[*line.partition, line.current, line.new, line.lag_after] for line in lines]
        echo_lines(table(["TOPIC", "PARTITION", "CURRENT", "NEW", "LAG AFTER"], rows))
    for line in lines:
        if line.is_clamped:
            end = "begins" if line.new > line.wanted else "ends"
            echo(f"Notice: {line.partition} {end} at {line.new}, not at {line.wanted}.", err=True)
    if not execute:
        echo("This is only a plan: nothing was changed. --execute commits it.", err=True)
