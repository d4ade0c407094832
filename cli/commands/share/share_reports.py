"""What `sordini share` reads for its reports, and records in flight as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.selections import PartitionSelection
from sordini.admin.shares.in_flight import ACQUIRED, AVAILABLE, InFlightPartition, InFlightRun, in_flight
from sordini.admin.shares.share_offsets import share_offset_rows, share_offsets
from sordini.admin.shares.share_reset import share_group
from sordini.admin.topics.topic_descriptions import partitions_of
from sordini.cli.commands.groups.group_reports import describe_groups
from sordini.cli.commands.groups.lag_texts import duration_text
from sordini.cli.common.output import table
from sordini.protocol.printable import counted


async def describe_share_groups(cluster: ClusterClient, names: Sequence[str]) -> list[dict[str, Any]]:
    """As `describe_groups`, of share groups only. Raises Failure for another group."""
    for name in names:
        await share_group(cluster, name)
    return await describe_groups(cluster, names)


async def offsets_of(cluster: ClusterClient, group: str) -> list[dict[str, Any]]:
    """The partitions of a share group. Raises Failure for another group."""
    return await share_offset_rows(cluster, await share_group(cluster, group))


async def in_flight_of(
    cluster: ClusterClient, group: str, wanted: Sequence[PartitionSelection], runs_max: int, *, has_all: bool
) -> list[InFlightPartition]:
    """The partitions with something in flight; runs that are done with `has_all` only. Raises Failure."""
    await share_group(cluster, group)
    partitions = await partitions_of(cluster, wanted) if wanted else [*await share_offsets(cluster, group)]
    found = await in_flight(cluster, group, partitions, runs_max)
    shown = [one if has_all else one._replace(runs=[run for run in one.runs if _is_unfinished(run)]) for one in found]
    return [one for one in shown if one.runs or one.has_more]


def in_flight_text(group: str, found: Sequence[InFlightPartition]) -> str:
    """A table of the runs, and what is left out."""
    rows = [
        [
            f"{one.partition.topic}:{one.partition.partition}",
            _offsets_text(run),
            run.state,
            f"{run.deliveries} of {one.deliveries_max}",
            run.member_id,
            _duration(run.acquired_ago_ms),
            _duration(run.lock_left_ms),
        ]
        for one in found
        for run in one.runs
    ]
    if not rows:
        return f"Share group {group} has no records in flight."
    acquired, available = (sum(one.offsets_in(state) for one in found) for state in (ACQUIRED, AVAILABLE))
    head = ["PARTITION", "OFFSETS", "STATE", "DELIVERIES", "MEMBER", "LOCKED", "LEFT"]
    lines = [table(head, rows), "", f"{counted(acquired, 'record')} acquired, {available} available again."]
    lines += [
        f"{one.partition.topic}:{one.partition.partition} has more: see --limit." for one in found if one.has_more
    ]
    return "\n".join(lines)


def _is_unfinished(run: InFlightRun) -> bool:
    return run.state in (ACQUIRED, AVAILABLE, "archiving")


def _offsets_text(run: InFlightRun) -> str:
    return str(run.first_offset) if run.offsets == 1 else f"{run.first_offset}-{run.last_offset}"


def _duration(ms: int | None) -> str | None:
    return None if ms is None else duration_text(ms / 1000)
