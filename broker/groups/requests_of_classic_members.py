"""Requests of the classic protocol to a consumer group (KIP-848), and what they are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from sordini.broker.groups.consumer.groups import ConsumerGroups
from sordini.broker.groups.consumer.machine.events import (
    ClassicAnswer,
    ClassicHeartbeat,
    ClassicJoin,
    ClassicSync,
    Refusal,
    RemovalAnswer,
    RemoveMembers,
    SyncedAnswer,
)
from sordini.broker.groups.consumer.machine.state import ClassicProtocol
from sordini.broker.groups.machine.events import (
    GroupAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Sync,
    SyncAnswer,
)
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId, topic_id_text

UUID_LENGTH: Final = 36
"""Of a new member's id, behind the client's name: in a consumer group ids have no name, and are written shorter."""


def submit(
    groups: ConsumerGroups, group_id: str, request: Join | Sync | Heartbeat | Leave, on_answer: Callable[[Any], None]
) -> None:
    """Submit a request to a consumer group; `on_answer` is called once, with the answer of the classic protocol."""
    match request:
        case Join():
            groups.submit(group_id, _join(request), lambda answer: on_answer(_joined(answer)))
        case Sync(_, member_id, instance_id, generation_id, protocol_type, protocol_name, _):
            sync = ClassicSync(member_id, instance_id, generation_id, protocol_type, protocol_name)
            groups.submit(group_id, sync, lambda answer: on_answer(_synced(answer)))
        case Heartbeat(_, member_id, instance_id, generation_id):
            beat = ClassicHeartbeat(member_id, instance_id, generation_id)
            groups.submit(group_id, beat, lambda answer: on_answer(GroupAnswer(answer.code)))
        case Leave(_, members, client_id):
            leaving = tuple((member.member_id, member.group_instance_id) for member in members)
            removal, count = RemoveMembers(leaving, client_id), len(leaving)
            groups.submit(group_id, removal, lambda answer: on_answer(_removed(answer, count)))


def _join(request: Join) -> ClassicJoin:
    return ClassicJoin(
        request.member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        tuple(ClassicProtocol(*protocol) for protocol in request.protocols),
        topic_id_text(TopicId(UUID(request.new_member_id[-UUID_LENGTH:]).bytes)),
        request.requires_known_member_id,
    )


def _joined(answer: ClassicAnswer | Refusal) -> JoinAnswer:
    if isinstance(answer, Refusal):
        return JoinAnswer(answer.code)
    if answer.error:
        return JoinAnswer(answer.error, member_id=answer.member_id)
    return JoinAnswer(
        ErrorCode.NONE, answer.generation_id, CONSUMER_PROTOCOL, answer.protocol_name, member_id=answer.member_id
    )


def _synced(answer: SyncedAnswer | Refusal) -> SyncAnswer:
    if isinstance(answer, Refusal):
        return SyncAnswer(answer.code)
    return SyncAnswer(ErrorCode.NONE, CONSUMER_PROTOCOL, answer.protocol_name, answer.assignment)


def _removed(answer: RemovalAnswer | Refusal, count: int) -> LeaveAnswer:
    return LeaveAnswer((answer.code,) * count if isinstance(answer, Refusal) else answer.errors)
