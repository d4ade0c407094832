"""Whether a request comes from who it says it does."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.groups.machine.state import Member
from sordini.protocol.errors import ErrorCode


def refusal(
    members: Mapping[str, Member], static_ids: Mapping[str, str], member_id: str, instance_id: str | None
) -> ErrorCode | None:
    """What a member is told that is not (or no longer) one; None if it is.

    FENCED_INSTANCE_ID: another has joined with the same instance id since, and this one has to stop (KIP-345).
    """
    if instance_id is not None:
        current_id = static_ids.get(instance_id)
        if current_id is not None and current_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if current_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    return None if member_id in members else ErrorCode.UNKNOWN_MEMBER_ID
