"""ConsumerGroupDescribe (KIP-848): groups whose partitions the coordinator assigns, for administrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember, Partitions, held_partitions
from sordini.broker.groups.consumer.machine.target import assignor_of
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.due_sessions import after_due_sessions
from sordini.broker.groups.group_rules import DescribedTopicsRule, GroupOperationsRule
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, OnEach
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from sordini.protocol.types import TopicId
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""The types of members, by the protocol that they speak."""
GROUP_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Without an authorizer every client may READ, DELETE and DESCRIBE a group, and describe and alter its settings."""


class ConsumerDescribeHandler:
    """Serves administrators of consumer groups."""

    def __init__(self, groups: GroupCoordinator, name_of: Callable[[TopicId], str | None]) -> None:
        """`name_of` has the names of topics that exist."""
        self._groups = groups
        self._name_of = name_of

    def route(self) -> Route:
        each_group = OnEach(ResourceType.GROUP, AclOperation.DESCRIBE, "group_ids", "groups")
        rule = Both(each_group, Both(DescribedTopicsRule(), GroupOperationsRule()))
        return Route(ApiKey.CONSUMER_GROUP_DESCRIBE, self.describe, self.error_response, rule)

    def describe(self, call: Call) -> Work[ConsumerGroupDescribeResponse | DelayedResponse]:
        request: ConsumerGroupDescribeRequest = call.body
        yield from check_name_repeats(request.group_ids)
        return (yield from after_due_sessions(call, self._groups, request.group_ids, lambda: self._describe(call)))

    def _describe(self, call: Call) -> Work[ConsumerGroupDescribeResponse | DelayedResponse]:
        request: ConsumerGroupDescribeRequest = call.body
        response = ConsumerGroupDescribeResponse()
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
        group = self._groups.consumer_group(group_id)
        if group is None:
            reason = "not found" if self._groups.any_group(group_id) is None else "is not a consumer group"
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=assignor_of(group.members.values(), self._groups.settings_of(group_id).assignors),
        )
        for member in group.members.values():  # The group is a value: it does not change between slices.
            yield 1 + len(member.subscribed_topics)
            described.members.append((yield from self._member(group, member)))
        return described

    def _member(self, group: ConsumerGroup, member: ConsumerMember) -> Work[Member]:
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topics),
            subscribed_topic_regex=member.subscribed_regex or "",
            assignment=(yield from self._assignment(held_partitions(member))),
            target_assignment=(yield from self._assignment(group.targets.get(member.member_id, {}))),
            member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def _assignment(self, partitions: Partitions) -> Work[Assignment]:
        """Without topics that have been deleted."""
        assignment = Assignment()
        for topic_id, indexes in partitions.items():
            yield 1 + len(indexes)
            name = self._name_of(topic_id)
            if name is not None:
                row = TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
                assignment.topic_partitions.append(row)
        return assignment

    @staticmethod
    def error_response(request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
        groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)
