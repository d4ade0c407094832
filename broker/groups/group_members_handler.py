"""The members of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Translates requests to the coordinator's events, with the wire's "", -1 and versions, and its answers to responses. The
decisions are in `broker/groups/machine/machine.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine.events import (
    GroupAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from sordini.broker.groups.machine.state import NO_CALLER, Protocol
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_group
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from sordini.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from sordini.replication.metadata_store.acl_model import AclOperation

M = TypeVar("M")

FIRST_VERSION_WITH_MEMBERS = 3
"""The first version of LeaveGroup with a list of members."""
LEAVING_PER_SLICE = 50
LEAVING_STEPS = 3
"""The cost of one member that leaves."""


class GroupMembersHandler:
    """Serves the members of groups."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.JOIN_GROUP, self.join, self.join_error_response, on_group(AclOperation.READ)),
            Route(ApiKey.SYNC_GROUP, self.sync, self.sync_error_response, on_group(AclOperation.READ)),
            Route(ApiKey.HEARTBEAT, self.heartbeat, self.heartbeat_error_response, on_group(AclOperation.READ)),
            Route(ApiKey.LEAVE_GROUP, self.leave, self.leave_error_response, on_group(AclOperation.READ)),
        ]

    def join(self, call: Call) -> JoinGroupResponse | DelayedResponse:
        request: JoinGroupRequest = call.body
        instance_id = request.group_instance_id
        event = Join(
            caller=NO_CALLER,
            member_id=request.member_id,
            group_instance_id=instance_id,
            client_id=call.client_id or "",
            client_host=f"/{call.peer.address}",
            rebalance_timeout_ms=request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
            new_member_id=self._groups.new_member_id(call.client_id or "" if instance_id is None else instance_id),
            requires_known_member_id=call.version >= 4 and instance_id is None,
            supports_skipping_assignment=call.version >= 9,
            reason=request.reason,
        )
        try:
            _check_group_id(request.group_id)
            return self._join(call, event)
        except BrokerError as error:
            return _join_response(JoinAnswer(error.code, member_id=request.member_id), call.version)

    def _join(self, call: Call, event: Join) -> JoinGroupResponse | DelayedResponse:
        """Raises BrokerError."""
        group_id = call.body.group_id

        def joined(answer: JoinAnswer) -> JoinGroupResponse:
            return _join_response(answer, call.version)

        if not self._groups.is_full(group_id):
            return _submit(self._groups, call, event, joined)
        responder: Responder[JoinGroupResponse] = Responder(call)

        def join_again() -> None:  # A member whose session has just expired leaves room.
            try:
                self._groups.submit(group_id, event, lambda answer: responder.answer(joined(answer)))
            except BrokerError as error:
                responder.answer(joined(JoinAnswer(error.code, member_id=event.member_id)))

        self._groups.session_waits.when_none_is_due([group_id], join_again)
        return responder.result()

    def sync(self, call: Call) -> SyncGroupResponse | DelayedResponse:
        request: SyncGroupRequest = call.body
        _check_group_id(request.group_id)
        if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member has to name its protocol")
        event = Sync(
            caller=NO_CALLER,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={given.member_id: given.assignment for given in request.assignments},
        )
        try:
            return _submit(self._groups, call, event, _sync_response)
        except BrokerError as error:
            if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            # The pending assignment is lost, and older clients do not expect COORDINATOR_LOAD_IN_PROGRESS here.
            return self.sync_error_response(request, ErrorCode.REBALANCE_IN_PROGRESS)

    def heartbeat(self, call: Call) -> HeartbeatResponse | DelayedResponse:
        request: HeartbeatRequest = call.body
        _check_group_id(request.group_id)
        event = Heartbeat(NO_CALLER, request.member_id, request.group_instance_id, request.generation_id)
        try:
            return _submit(self._groups, call, event, _heartbeat_response)
        except BrokerError as error:
            if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return HeartbeatResponse()  # Its session starts when the group is loaded.

    def leave(self, call: Call) -> LeaveGroupResponse | DelayedResponse | Work[LeaveGroupResponse | DelayedResponse]:
        request: LeaveGroupRequest = call.body
        _check_group_id(request.group_id)
        is_list = call.version >= FIRST_VERSION_WITH_MEMBERS
        leaving = request.members if is_list else [MemberIdentity(member_id=request.member_id)]
        if len(leaving) > LEAVING_PER_SLICE:
            return self._leave_in_slices(call)
        return _submit(
            self._groups,
            call,
            _leave_event(leaving, call),
            lambda answer: _leave_response(answer, leaving, call.version),
        )

    def _leave_in_slices(self, call: Call) -> Work[LeaveGroupResponse | DelayedResponse]:
        """In slices. When this broker resigns as the coordinator, the remaining members have NOT_COORDINATOR."""
        request: LeaveGroupRequest = call.body
        responder: Responder[LeaveGroupResponse] = Responder(call)
        starts = range(0, len(request.members), LEAVING_PER_SLICE)
        slices = {start: request.members[start : start + LEAVING_PER_SLICE] for start in starts}
        answers: dict[int, LeaveAnswer] = {}

        def answered(start: int, answer: LeaveAnswer) -> None:
            """That of a consumer group comes when its records are committed."""
            answers[start] = answer
            if len(answers) == len(slices):
                parts = (_leave_response(answers[at], some, call.version).members for at, some in slices.items())
                responder.answer(LeaveGroupResponse(members=[*chain.from_iterable(parts)]))

        for start, some in slices.items():
            try:
                self._groups.submit(request.group_id, _leave_event(some, call), partial(answered, start))
            except BrokerError as error:
                if not start:
                    raise
                answered(start, LeaveAnswer((error.code,) * len(some)))
            yield LEAVING_STEPS * len(some)
        return responder.result()

    @staticmethod
    def join_error_response(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=code, member_id=request.member_id)

    @staticmethod
    def sync_error_response(_request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=code)

    @staticmethod
    def heartbeat_error_response(_request: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=code)

    @staticmethod
    def leave_error_response(_request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=code)


def _check_group_id(group_id: str) -> None:
    """A group with members needs a name; only offsets may be committed under "" (by old simple consumers)."""
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def _submit(
    groups: GroupCoordinator, call: Call, event: Join | Sync | Heartbeat | Leave, message: Callable[[Any], M]
) -> M | DelayedResponse:
    """Submit a request to a group; `message` makes the response of its answer."""
    responder: Responder[M] = Responder(call)
    groups.submit(call.body.group_id, event, lambda answer: responder.answer(message(answer)))
    return responder.result()


def _leave_event(leaving: Sequence[MemberIdentity], call: Call) -> Leave:
    members = (LeavingMember(member.member_id, member.group_instance_id, member.reason) for member in leaving)
    return Leave(NO_CALLER, tuple(members), call.client_id)


def _join_response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    # Without a protocol: null from version 7 on, before "".
    protocol_name = answer.protocol_name if version >= 7 else answer.protocol_name or ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in answer.members
        ],
    )


def _sync_response(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def _heartbeat_response(answer: GroupAnswer) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=answer.error)


def _leave_response(answer: LeaveAnswer, leaving: list[MemberIdentity], version: int) -> LeaveGroupResponse:
    if version < FIRST_VERSION_WITH_MEMBERS:
        return LeaveGroupResponse(error_code=answer.errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
            for member, error in zip(leaving, answer.errors, strict=True)
        ]
    )
