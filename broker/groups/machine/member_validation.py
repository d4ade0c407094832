"""Validation of the member id and instance id in a request."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.groups.machine.state import Member
from sordini.protocol.errors import ErrorCode


def member_error(
    members: Mapping[str, Member], static_member_ids: Mapping[str, str], member_id: str, instance_id: str | None
) -> ErrorCode | None:
    """The error code for a request of this member; None if it is a member of the group.

    FENCED_INSTANCE_ID: another member has joined with the same instance id, and this one has to stop (KIP-345).
    """
    if instance_id is not None:
        current_id = static_member_ids.get(instance_id)
        if current_id is not None and current_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if current_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    return None if member_id in members else ErrorCode.UNKNOWN_MEMBER_ID
