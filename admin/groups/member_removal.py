"""Remove members from a group: LeaveGroup in their names (KIP-345)."""

from __future__ import annotations

from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.client.errors import check
from sordini.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

FIRST_FOR_OTHERS: Final = 3
"""The first LeaveGroup with a list of members."""
REASON: Final = "removed by an administrator"


async def remove_member(cluster: ClusterClient, group: str, member_id: str, instance_id: str | None) -> None:
    """Remove one member; its client may join again. Raises Refused."""
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=REASON)
    request = LeaveGroupRequest(group_id=group, members=[identity])

    async def attempt() -> None:
        link = await cluster.coordinator(group)
        answer: LeaveGroupResponse = await link.ask(request, at_least=FIRST_FOR_OTHERS)
        check(f"group '{group}'", answer.error_code)
        for row in answer.members:
            check(f"member '{member_id}' of group '{group}'", row.error_code)

    await cluster.retry(attempt)
