"""`share reset` and `share delete-offsets`: changes of a share group's offsets, while it has no members (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups.group_description import DEAD, SHARE, GroupDescription, describe_group
from sordini.admin.groups.group_requests import delete_groups
from sordini.admin.groups.offset_reset import ResetPlan, ResetRequest, check_is_empty, plan_of
from sordini.admin.shares.share_offsets import alter_share_offsets, delete_share_offsets, share_offsets


async def share_group(cluster: ClusterClient, group: str, *, must_exist: bool = True) -> GroupDescription:
    """A share group. Raises Failure for a group of another kind, and with `must_exist` for one that is not there."""
    found = await describe_group(cluster, group)
    if found.kind not in (SHARE, None):
        raise Failure(f"group '{group}' is a {found.kind} group, not a share group: see `sordini groups`")
    if must_exist and found.state == DEAD:
        raise Failure(f"share group '{group}' does not exist; `sordini share list` lists them")
    return found


async def reset_share_offsets(cluster: ClusterClient, request: ResetRequest, *, execute: bool) -> ResetPlan:
    """Make the plan, and with `execute` carry it out. Raises Failure, and then nothing was changed.

    What was in flight, and what was done behind the new start offset, is forgotten: it is delivered again.
    """
    found = await share_group(cluster, request.group, must_exist=False)
    check_is_empty(found)
    offsets = await share_offsets(cluster, request.group) if found.state != DEAD else {}
    starts = {partition: row.start for partition, row in offsets.items() if row.start is not None}
    plan = await plan_of(cluster, request, starts, group_exists=found.state != DEAD)
    if execute:
        await alter_share_offsets(cluster, request.group, plan.new_offsets)
    return plan


async def forget_topics(cluster: ClusterClient, group: str, topics: Sequence[str]) -> list[dict[str, Any]]:
    """Let a share group forget topics; a result for each. Raises Failure."""
    await share_group(cluster, group)
    return await delete_share_offsets(cluster, group, topics)


async def delete_share_groups(cluster: ClusterClient, groups: Sequence[str]) -> list[dict[str, Any]]:
    """Delete share groups with their offsets; a result for each. Raises Failure for a group of another kind."""
    for group in groups:
        await share_group(cluster, group, must_exist=False)
    return await delete_groups(cluster, groups)
