"""Groups for administrators: DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from functools import partial

from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.due_sessions import after_due_sessions
from sordini.broker.groups.group_deletion_errors import deletion_error
from sordini.broker.groups.group_rules import GroupOperationsRule, ListGroupsRule
from sordini.broker.groups.machine.state import Group, GroupState, Member
from sordini.broker.groups.share.machine.state import ShareGroup
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, OnEach
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from sordini.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from sordini.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
"""The types of groups (KIP-848 names them); all but classic are protocol types, too."""
DELETION_STEPS = 10
"""The cost of one deletion: a step of the machine, and a write."""
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Without an authorizer every client may READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS."""


class GroupListingHandler:
    """Serves administrators of groups."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.DESCRIBE_GROUPS,
                self.describe,
                self.describe_error_response,
                Both(OnEach(ResourceType.GROUP, AclOperation.DESCRIBE, "groups", "groups"), GroupOperationsRule()),
            ),
            Route(ApiKey.LIST_GROUPS, self.list, self.list_error_response, ListGroupsRule()),
            Route(
                ApiKey.DELETE_GROUPS,
                self.delete,
                self.delete_error_response,
                OnEach(ResourceType.GROUP, AclOperation.DELETE, "groups_names", "results"),
            ),
        ]

    def describe(self, call: Call) -> Work[DescribeGroupsResponse | DelayedResponse]:
        request: DescribeGroupsRequest = call.body
        yield from check_name_repeats(request.groups)
        return (yield from after_due_sessions(call, self._groups, request.groups, lambda: self._describe(call)))

    def _describe(self, call: Call) -> Work[DescribeGroupsResponse | DelayedResponse]:
        request: DescribeGroupsRequest = call.body
        response = DescribeGroupsResponse()
        for group_id in request.groups:
            yield 1 + len(group_id) // LETTERS_PER_STEP
            try:
                group = self._groups.group(group_id)
                is_other = group is None and self._groups.any_group(group_id) is not None
            except BrokerError as error:
                response.groups.append(DescribedGroup(group_id=group_id, error_code=error.code))
                continue
            described = yield from _described(group_id, group, call.version, is_other=is_other)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = GROUP_OPERATIONS
            response.groups.append(described)
        return response

    def list(self, call: Call) -> Work[ListGroupsResponse | DelayedResponse]:
        return (yield from after_due_sessions(call, self._groups, None, lambda: self._list(call.body)))

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
        for group in self._groups.groups():
            yield 1
            kind, protocol_type, state = CLASSIC, "", group.state.value
            if isinstance(group, ConsumerGroup):
                kind = protocol_type = CONSUMER
            elif isinstance(group, ShareGroup):
                kind = protocol_type = SHARE
            else:
                protocol_type = group.protocol_type or ""
            if (not types or kind in types) and (not states or state.lower() in states):
                response.groups.append(
                    ListedGroup(
                        group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=kind
                    )
                )
        return response

    def delete(self, call: Call) -> Work[DeleteGroupsResponse | DelayedResponse]:
        request: DeleteGroupsRequest = call.body
        responder: Responder[DeleteGroupsResponse] = Responder(call)
        names = list(dict.fromkeys(request.groups_names))
        results: list[DeletableGroupResult] = []
        left = len(names)

        def deleted(result: DeletableGroupResult, code: ErrorCode) -> None:
            nonlocal left
            left -= 1
            result.error_code, result.error_message = code, deletion_error(code)
            if not left:
                responder.answer(DeleteGroupsResponse(results=results))

        for group_id in names:
            results.append(DeletableGroupResult(group_id=group_id))
            self._groups.delete_group(group_id, partial(deleted, results[-1]))
            yield DELETION_STEPS + len(group_id) // LETTERS_PER_STEP
        return responder.result() if names else DeleteGroupsResponse()

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
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=deletion_error(code))


def _described(group_id: str, group: Group | None, version: int, *, is_other: bool) -> Work[DescribedGroup]:
    """`is_other`: there is a group of another kind of that name, which has a request of its own."""
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= 6:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
        return described
    is_stable = group.state is GroupState.STABLE
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol_name or "" if is_stable else "",
    )
    for member in group.members.values():  # The group is a value: it does not change between slices.
        described.members.append(_described_member(member, group.protocol_name if is_stable else None))
        yield 1
    return described


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    """Metadata and assignments are given of a stable group only: in other states they are about to change."""
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
