"""Requests of the classic protocol to a share group: all are refused, by Apache Kafka's codes."""

from __future__ import annotations

from typing import Any

from sordini.broker.groups.machine.events import (
    GroupAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Request,
    Sync,
    SyncAnswer,
    ValidateOffsetCommit,
)
from sordini.protocol.errors import ErrorCode


def refusal(request: Request) -> Any:
    """The answer to a request that is no deletion of the group."""
    match request:
        case Join():
            return JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        case Sync():
            return SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        case Leave(_, members, _):
            return LeaveAnswer((ErrorCode.UNKNOWN_MEMBER_ID,) * len(members))
        case Heartbeat():
            return GroupAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
        case ValidateOffsetCommit():
            return GroupAnswer(ErrorCode.GROUP_ID_NOT_FOUND)
    raise AssertionError(request)
