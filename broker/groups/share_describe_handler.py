"""ShareGroupDescribe (KIP-932): share groups, for administrators."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.groups.consumer_describe_handler import GROUP_OPERATIONS
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.due_sessions import after_due_sessions
from sordini.broker.groups.group_rules import GroupOperationsRule
from sordini.broker.groups.share.machine.state import Partitions, ShareMember
from sordini.broker.groups.share.machine.target import SIMPLE
from sordini.broker.groups.share_rules import DescribedShareTopicsRule
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, OnEach
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from sordini.protocol.types import TopicId
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType


class ShareDescribeHandler:
    """Serves administrators of share groups."""

    def __init__(self, groups: GroupCoordinator, name_of: Callable[[TopicId], str | None]) -> None:
        """`name_of` has the names of topics that exist."""
        self._groups = groups
        self._name_of = name_of

    def route(self) -> Route:
        each_group = OnEach(ResourceType.GROUP, AclOperation.DESCRIBE, "group_ids", "groups")
        rule = Both(each_group, Both(DescribedShareTopicsRule(), GroupOperationsRule()))
        return Route(ApiKey.SHARE_GROUP_DESCRIBE, self.describe, self.error_response, rule)

    def describe(self, call: Call) -> Work[ShareGroupDescribeResponse | DelayedResponse]:
        request: ShareGroupDescribeRequest = call.body
        yield from check_name_repeats(request.group_ids)
        return (yield from after_due_sessions(call, self._groups, request.group_ids, lambda: self._describe(call)))

    def _describe(self, call: Call) -> Work[ShareGroupDescribeResponse | DelayedResponse]:
        request: ShareGroupDescribeRequest = call.body
        response = ShareGroupDescribeResponse()
        for group_id in request.group_ids:
            yield 1 + len(group_id) // LETTERS_PER_STEP
            try:
                described = yield from self._described(group_id)
            except BrokerError as error:
                message = None if str(error) == error.code.name else str(error)
                described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = GROUP_OPERATIONS
            response.groups.append(described)
        return response

    def _described(self, group_id: str) -> Work[DescribedGroup]:
        """Raises BrokerError."""
        if not group_id:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.share_group(group_id)
        if group is None:
            reason = "not found" if self._groups.any_group(group_id) is None else "is not a share group"
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=SIMPLE,
        )
        for member in group.members.values():  # The group is a value: it does not change between slices.
            yield 1 + len(member.subscribed_topics)
            described.members.append((yield from self._member(member)))
        return described

    def _member(self, member: ShareMember) -> Work[Member]:
        return Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topics),
            assignment=(yield from self._assignment(member.assigned)),
        )

    def _assignment(self, partitions: Partitions) -> Work[Assignment]:
        """Without topics that have been deleted."""
        assignment = Assignment(topic_partitions=[])
        for topic_id, indexes in partitions.items():
            yield 1 + len(indexes)
            name = self._name_of(topic_id)
            if name is not None:
                row = TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
                assignment.topic_partitions.append(row)
        return assignment

    @staticmethod
    def error_response(request: ShareGroupDescribeRequest, code: ErrorCode) -> ShareGroupDescribeResponse:
        groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in request.group_ids]
        return ShareGroupDescribeResponse(groups=groups)
