"""Rules of groups' offsets and lists."""

from __future__ import annotations

import copy
from typing import Any

from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, add_rows, name_of, split
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from sordini.protocol.messages.list_groups import ListGroupsResponse
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType
from sordini.system.named_tuple import NamedTuple

FIRST_WITH_GROUPS = 8
NO_OFFSET = -1
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNSEEN_TOPICS = "The group uses topics that the client is not authorized to describe."


class ListGroupsRule(NamedTuple):
    """Groups that the peer may not describe are left out."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on the cluster; otherwise DESCRIBE on each group, and the others are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        access, peer = deps.access.quietly, call.peer
        if access.to_cluster(peer, AclOperation.DESCRIBE):
            return None

        def amend(message: ListGroupsResponse) -> ListGroupsResponse:
            message.groups = [
                group for group in message.groups if access.to_group(peer, AclOperation.DESCRIBE, group.group_id)
            ]
            return message

        call.amend = amend
        return None


class GroupOperationsRule(NamedTuple):
    """Fills in what a peer may do to the groups that it describes (KIP-430)."""

    @property
    def meaning(self) -> str:
        return "operations that the peer may do are listed where it asks for them"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        if not call.body.include_authorized_operations:
            return None
        access, peer, former = deps.access, call.peer, call.amend

        def amend(message: Any) -> Any:
            for group in message.groups:
                if not group.error_code:
                    group.authorized_operations = access.operations(peer, ResourceType.GROUP, group.group_id)
            return message if former is None else former(message)

        call.amend = amend
        return None


class DescribedTopicsRule(NamedTuple):
    """A consumer group with a topic that the peer may not describe is not described (KIP-848)."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each topic that members of the group subscribe to or have"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        access, peer, former = deps.access, call.peer, call.amend

        def may_see(group: DescribedGroup) -> bool:
            names = set[str]()
            for member in group.members:
                rows = (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
                names.update(member.subscribed_topic_names, (row.topic_name for row in rows))
            return all(access.to_topic(peer, AclOperation.DESCRIBE, name) for name in sorted(names))

        def amend(message: ConsumerGroupDescribeResponse) -> Any:
            message.groups = [
                group
                if may_see(group)
                else DescribedGroup(group_id=group.group_id, error_code=DENIED, error_message=UNSEEN_TOPICS)
                for group in message.groups
            ]
            return message if former is None else former(message)

        call.amend = amend
        return None


class OffsetFetchRule(NamedTuple):
    """DESCRIBE on each group and each topic; of all topics of a group those that are refused are left out."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each group, DESCRIBE on each topic; of all of a group's topics the others are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: OffsetFetchRequest = call.body
        if call.version < FIRST_WITH_GROUPS:
            deps.access.require_group(call.peer, AclOperation.DESCRIBE, request.group_id)
            yield from self._old_topics(call, request, deps)
            return None
        access, peer = deps.access, call.peer
        allowed, refused = yield from split(
            request.groups, lambda group: access.to_group(peer, AclOperation.DESCRIBE, group.group_id)
        )
        request.groups = allowed
        denied: dict[int, list[Any]] = {}
        for index, group in enumerate(allowed):
            if group.topics is not None:
                group.topics, denied[index] = yield from self._topics(call, group.topics, deps)
        call.amend = self._amend(call, allowed, refused, denied, deps)
        return None

    def _topics(self, call: Call, topics: list[Any], deps: RuleDeps) -> Work[tuple[list[Any], list[Any]]]:
        def is_allowed(topic: Any) -> bool:
            name = name_of(topic, deps.metadata)
            return name is None or deps.access.to_topic(call.peer, AclOperation.DESCRIBE, name)

        return (yield from split(topics, is_allowed))

    def _old_topics(self, call: Call, request: OffsetFetchRequest, deps: RuleDeps) -> Work[None]:
        access, peer = deps.access, call.peer
        if request.topics is None:

            def leave_out(message: OffsetFetchResponse) -> OffsetFetchResponse:
                message.topics = [
                    row for row in message.topics if access.quietly.to_topic(peer, AclOperation.DESCRIBE, row.name)
                ]
                return message

            call.amend = leave_out
            return
        request.topics, refused = yield from self._topics(call, request.topics, deps)
        rows = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=DENIED
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in refused
        ]
        if rows:
            add_rows(call, "topics", rows)

    def _amend(
        self,
        call: Call,
        allowed: list[OffsetFetchRequestGroup],
        refused: list[OffsetFetchRequestGroup],
        denied: dict[int, list[Any]],
        deps: RuleDeps,
    ) -> Any:
        access, peer = deps.access.quietly, call.peer

        def amend(message: OffsetFetchResponse) -> OffsetFetchResponse:
            for index, (asked, answered) in enumerate(zip(allowed, message.groups, strict=False)):
                if asked.topics is None:
                    answered.topics = [row for row in answered.topics if self._may_see(row, deps, access, peer)]
                else:
                    answered.topics = [*answered.topics, *map(_denied_topic, denied[index])]
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            rows = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in refused]
            message.groups = [*message.groups, *rows]
            return message

        return amend

    @staticmethod
    def _may_see(row: OffsetFetchResponseTopics, deps: RuleDeps, access: Any, peer: Any) -> bool:
        name = row.name or name_of(row, deps.metadata)
        return name is not None and access.to_topic(peer, AclOperation.DESCRIBE, name)


def _denied_topic(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=DENIED
            )
            for index in topic.partition_indexes
        ],
    )


class OffsetDeleteRule(NamedTuple):
    """DELETE on the group, READ on each topic."""

    operation: AclOperation = AclOperation.DELETE

    @property
    def meaning(self) -> str:
        return "DELETE on the group, READ on each topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: OffsetDeleteRequest = call.body
        deps.access.require_group(call.peer, AclOperation.DELETE, request.group_id)
        allowed, refused = yield from split(
            request.topics, lambda topic: deps.access.to_topic(call.peer, AclOperation.READ, topic.name)
        )
        if not refused:
            return None
        rows = [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=DENIED)
                    for row in topic.partitions
                ],
            )
            for topic in refused
        ]
        call.body = copy.copy(request)
        call.body.topics = allowed

        def amend(message: OffsetDeleteResponse) -> OffsetDeleteResponse:
            if not message.error_code:  # An error of the group is about all topics.
                message.topics = [*message.topics, *rows]
            return message

        call.amend = amend
        return None
