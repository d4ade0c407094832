"""Members and groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups.

The wire's "", -1 and versions become the coordinator's events here, and its answers messages again. What a group
decides is in `broker/groups/machine/machine.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sordini.broker.dispatch import Call, Route
from sordini.broker.groups.coordinator import NOBODY, GroupCoordinator
from sordini.broker.groups.machine.events import (
    Answer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaving,
    Sync,
    SyncAnswer,
)
from sordini.broker.groups.machine.state import Group, GroupState, Member, Protocol
from sordini.broker.handlers.group_expiry import after_expiry
from sordini.broker.handlers.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.handlers.responder import Responder
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from sordini.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from sordini.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from sordini.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

M = TypeVar("M")

CLASSIC = "classic"
"""The type of every group here (KIP-848 names it)."""
VERSION_OF_MANY = 3
"""The first version of LeaveGroup that names many members."""
LEAVING_AT_ONCE = 50
LEAVING_STEPS = 3
"""What it takes for one member to leave."""
DELETION_STEPS = 10
"""A group that is deleted goes through its machine, and is written."""
GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""What everybody may do with a group while nobody is asked who they are: READ, DELETE, DESCRIBE."""

DELETION_REFUSED = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them, or wait until their sessions end",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NOT_COORDINATOR: "another broker is the group's coordinator, or none is at the moment",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the group is being read from the log: try again",
}
"""Why a group is not deleted. Other codes stand for themselves."""


class GroupsHandler:
    """Serves consumers, and those who look after their groups."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.JOIN_GROUP, self.join, self.join_error_response),
            Route(ApiKey.SYNC_GROUP, self.sync, self.sync_error_response),
            Route(ApiKey.HEARTBEAT, self.heartbeat, self.heartbeat_error_response),
            Route(ApiKey.LEAVE_GROUP, self.leave, self.leave_error_response),
            Route(ApiKey.DESCRIBE_GROUPS, self.describe, self.describe_error_response),
            Route(ApiKey.LIST_GROUPS, self.list, self.list_error_response),
            Route(ApiKey.DELETE_GROUPS, self.delete, self.delete_error_response),
        ]

    def join(self, call: Call) -> JoinGroupResponse | DelayedResponse:
        request: JoinGroupRequest = call.body
        instance_id = request.group_instance_id
        event = Join(
            caller=NOBODY,
            member_id=request.member_id,
            group_instance_id=instance_id,
            client_id=call.client_id or "",
            client_host=f"/{call.peer.address}",
            rebalance_timeout_ms=request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
            drawn_member_id=self._groups.draw_member_id(call.client_id or "" if instance_id is None else instance_id),
            needs_known_id=call.version >= 4 and instance_id is None,
            may_skip_assignment=call.version >= 9,
        )
        try:
            _check_group_id(request.group_id)
            return self._join(call, event)
        except BrokerError as error:
            return _joined(JoinAnswer(error.code, member_id=request.member_id), call.version)

    def _join(self, call: Call, event: Join) -> JoinGroupResponse | DelayedResponse:
        """Raises BrokerError."""
        group_id = call.body.group_id

        def joined(answer: JoinAnswer) -> JoinGroupResponse:
            return _joined(answer, call.version)

        if not self._groups.is_full(group_id):
            return _ask(self._groups, call, event, joined)
        responder: Responder[JoinGroupResponse] = Responder(call)

        def settled() -> None:  # The place of a member whose session has just ended is free.
            try:
                self._groups.ask(group_id, event, lambda answer: responder.answer(joined(answer)))
            except BrokerError as error:
                responder.answer(joined(JoinAnswer(error.code, member_id=event.member_id)))

        self._groups.when_settled([group_id], settled)
        return responder.result()

    def sync(self, call: Call) -> SyncGroupResponse | DelayedResponse:
        request: SyncGroupRequest = call.body
        _check_group_id(request.group_id)
        if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member says which protocol it follows")
        event = Sync(
            caller=NOBODY,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={given.member_id: given.assignment for given in request.assignments},
        )
        try:
            return _ask(self._groups, call, event, _synced)
        except BrokerError as error:
            if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            # What was being assigned is lost, and older clients do not expect to be told of the loading.
            return self.sync_error_response(request, ErrorCode.REBALANCE_IN_PROGRESS)

    def heartbeat(self, call: Call) -> HeartbeatResponse | DelayedResponse:
        request: HeartbeatRequest = call.body
        _check_group_id(request.group_id)
        event = Heartbeat(NOBODY, request.member_id, request.group_instance_id, request.generation_id)
        try:
            return _ask(self._groups, call, event, _heard)
        except BrokerError as error:
            if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return HeartbeatResponse()  # Its session begins when the group is there.

    def leave(self, call: Call) -> LeaveGroupResponse | DelayedResponse | Work[LeaveGroupResponse]:
        request: LeaveGroupRequest = call.body
        _check_group_id(request.group_id)
        leaving = request.members if call.version >= VERSION_OF_MANY else [MemberIdentity(member_id=request.member_id)]
        if len(leaving) > LEAVING_AT_ONCE:
            return self._many_leave(request)
        event = Leave(NOBODY, tuple(Leaving(member.member_id, member.group_instance_id) for member in leaving))
        return _ask(self._groups, call, event, lambda answer: _left(answer, leaving, call.version))

    def _many_leave(self, request: LeaveGroupRequest) -> Work[LeaveGroupResponse]:
        """Some after the other. When the group is not coordinated here any more, the rest has that for its answer."""
        response = LeaveGroupResponse()
        for start in range(0, len(request.members), LEAVING_AT_ONCE):
            some = request.members[start : start + LEAVING_AT_ONCE]
            answers: list[LeaveAnswer] = []
            event = Leave(NOBODY, tuple(Leaving(member.member_id, member.group_instance_id) for member in some))
            try:
                self._groups.ask(request.group_id, event, answers.append)
            except BrokerError as error:
                if not start:
                    raise
                answers.append(LeaveAnswer((error.code,) * len(some)))
            response.members += _left(answers[0], some, VERSION_OF_MANY).members
            yield LEAVING_STEPS * len(some)
        return response

    def describe(self, call: Call) -> Work[DescribeGroupsResponse | DelayedResponse]:
        request: DescribeGroupsRequest = call.body
        yield from check_name_repeats(request.groups)
        return (yield from after_expiry(call, self._groups, request.groups, lambda: self._describe(call)))

    def _describe(self, call: Call) -> Work[DescribeGroupsResponse | DelayedResponse]:
        request: DescribeGroupsRequest = call.body
        response = DescribeGroupsResponse()
        for group_id in request.groups:
            yield 1 + len(group_id) // LETTERS_PER_STEP
            try:
                group = self._groups.group(group_id)
            except BrokerError as error:
                response.groups.append(DescribedGroup(group_id=group_id, error_code=error.code))
                continue
            described = yield from _described(group_id, group, call.version)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = GROUP_OPERATIONS
            response.groups.append(described)
        return response

    def list(self, call: Call) -> Work[ListGroupsResponse | DelayedResponse]:
        return (yield from after_expiry(call, self._groups, None, lambda: self._list(call.body)))

    def _list(self, request: ListGroupsRequest) -> Work[ListGroupsResponse | DelayedResponse]:
        states = set()
        for state in request.states_filter:
            states.add(state.lower())
            yield 1
        types = set()
        for kind in request.types_filter:
            types.add(kind.lower())
            yield 1
        response = ListGroupsResponse()
        if self._groups.is_loading:
            response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for group in self._groups.groups() if not types or CLASSIC in types else ():
            yield 1
            if not states or group.state.value.lower() in states:
                response.groups.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=group.state.value,
                        group_type=CLASSIC,
                    )
                )
        return response

    def delete(self, call: Call) -> Work[DeleteGroupsResponse | DelayedResponse]:
        request: DeleteGroupsRequest = call.body
        responder: Responder[DeleteGroupsResponse] = Responder(call)
        names = list(dict.fromkeys(request.groups_names))
        results: list[DeletableGroupResult] = []
        left = len(names)

        def ended(result: DeletableGroupResult, code: ErrorCode) -> None:
            nonlocal left
            left -= 1
            result.error_code, result.error_message = code, _why_not_deleted(code)
            if not left:
                responder.answer(DeleteGroupsResponse(results=results))

        for group_id in names:
            results.append(DeletableGroupResult(group_id=group_id))
            self._groups.delete(group_id, partial(ended, results[-1]))
            yield DELETION_STEPS + len(group_id) // LETTERS_PER_STEP
        return responder.result() if names else DeleteGroupsResponse()

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

    @staticmethod
    def describe_error_response(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
        )

    @staticmethod
    def list_error_response(_request: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=code)

    @staticmethod
    def delete_error_response(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[_deleted(group_id, code) for group_id in request.groups_names])


def _deleted(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=_why_not_deleted(code))


def _why_not_deleted(code: ErrorCode) -> str | None:
    return None if code == ErrorCode.NONE else DELETION_REFUSED.get(code, code.name)


def _check_group_id(group_id: str) -> None:
    """Members have a group with a name; only offsets may be kept under "" (old simple consumers do)."""
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def _ask(
    groups: GroupCoordinator, call: Call, event: Join | Sync | Heartbeat | Leave, message: Callable[[Any], M]
) -> M | DelayedResponse:
    """Tell a group what happens to it; its answer becomes a message by `message`."""
    responder: Responder[M] = Responder(call)
    groups.ask(call.body.group_id, event, lambda answer: responder.answer(message(answer)))
    return responder.result()


def _joined(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    # Null from version 7 on, when there is no protocol.
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


def _synced(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def _heard(answer: Answer) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=answer.error)


def _left(answer: LeaveAnswer, leaving: list[MemberIdentity], version: int) -> LeaveGroupResponse:
    if version < VERSION_OF_MANY:
        return LeaveGroupResponse(error_code=answer.errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
            for member, error in zip(leaving, answer.errors, strict=True)
        ]
    )


def _described(group_id: str, group: Group | None, version: int) -> Work[DescribedGroup]:
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= 6:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described
    is_stable = group.state is GroupState.STABLE
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol_name or "" if is_stable else "",
    )
    for member in group.members.values():  # Of a group that is a value: it is what it was when it was found.
        described.members.append(_described_member(member, group.protocol_name if is_stable else None))
        yield 1
    return described


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    """What members said and were given is told of a stable group only: otherwise it is about to change."""
    described = DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
    if protocol_name is not None:
        described.member_metadata = member.metadata(protocol_name)
        described.member_assignment = member.assignment
    return described
