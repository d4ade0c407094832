"""Rules of share groups (KIP-932)."""

from __future__ import annotations

import copy
from typing import Any

from sordini.broker.groups.group_rules import DENIED, UNSEEN_TOPICS
from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, split
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from sordini.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeResponse
from sordini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType
from sordini.system.named_tuple import NamedTuple

DENIED_TEXT = "Topic authorization failed."


class SubscribedTopicsRule(NamedTuple):
    """READ on the group, DESCRIBE on each topic that a member subscribes to."""

    @property
    def meaning(self) -> str:
        return "READ on the group, DESCRIBE on each topic that the member subscribes to"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: ShareGroupHeartbeatRequest = call.body
        deps.access.require_group(call.peer, AclOperation.READ, request.group_id)
        for name in dict.fromkeys(request.subscribed_topic_names or ()):
            deps.access.require_topic(call.peer, AclOperation.DESCRIBE, name)
            yield 1
        yield 1
        return None


class DescribedShareTopicsRule(NamedTuple):
    """A share group whose members have a topic that the peer may not describe is not described."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each topic that members of the group have"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        access, peer, former = deps.access, call.peer, call.amend

        def may_see(group: DescribedGroup) -> bool:
            names = {row.topic_name for member in group.members for row in member.assignment.topic_partitions}
            return all(access.to_topic(peer, AclOperation.DESCRIBE, name) for name in sorted(names))

        def amend(message: ShareGroupDescribeResponse) -> Any:
            message.groups = [
                group
                if may_see(group)
                else DescribedGroup(group_id=group.group_id, error_code=DENIED, error_message=UNSEEN_TOPICS)
                for group in message.groups
            ]
            return message if former is None else former(message)

        call.amend = amend
        return None


class DescribeShareOffsetsRule(NamedTuple):
    """DESCRIBE on each group and each topic; of all topics of a group those that are refused are left out."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each group, DESCRIBE on each topic; of all of a group's topics the others are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: DescribeShareGroupOffsetsRequest = call.body
        access, peer = deps.access, call.peer
        allowed, refused = yield from split(
            request.groups, lambda group: access.to_group(peer, AclOperation.DESCRIBE, group.group_id)
        )
        denied: list[list[DescribeShareGroupOffsetsResponseTopic]] = []
        groups = []
        for group in allowed:
            topics, unseen = yield from split(
                group.topics or (), lambda topic: access.to_topic(peer, AclOperation.DESCRIBE, topic.topic_name)
            )
            denied.append([_denied_topic(topic) for topic in unseen])
            reduced = copy.copy(group)
            if group.topics is not None:
                reduced.topics = topics
            groups.append(reduced)
        call.body = copy.copy(request)
        call.body.groups = groups

        def amend(message: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
            for requested, answered, rows in zip(groups, message.groups, denied, strict=False):
                if requested.topics is None:
                    answered.topics = [
                        row for row in answered.topics if access.to_topic(peer, AclOperation.DESCRIBE, row.topic_name)
                    ]
                elif not answered.error_code:
                    answered.topics = [*answered.topics, *rows]
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            message.groups = [
                *message.groups,
                *(DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id, error_code=code) for one in refused),
            ]
            return message

        call.amend = amend
        return None


def _denied_topic(topic: Any) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=-1, error_code=DENIED, error_message=DENIED_TEXT
            )
            for index in topic.partitions
        ],
    )


class AlterShareOffsetsRule(NamedTuple):
    """READ on the group and on each topic."""

    @property
    def meaning(self) -> str:
        return "READ on the group, READ on each topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: AlterShareGroupOffsetsRequest = call.body
        deps.access.require_group(call.peer, AclOperation.READ, request.group_id)
        allowed, refused = yield from split(
            request.topics, lambda topic: deps.access.to_topic(call.peer, AclOperation.READ, topic.topic_name)
        )
        rows = [
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=row.partition_index, error_code=DENIED, error_message=DENIED_TEXT
                    )
                    for row in topic.partitions
                ],
            )
            for topic in refused
        ]
        return _leave_allowed(call, allowed, rows)


class DeleteShareOffsetsRule(NamedTuple):
    """DELETE on the group, READ on each topic."""

    @property
    def meaning(self) -> str:
        return "DELETE on the group, READ on each topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: DeleteShareGroupOffsetsRequest = call.body
        deps.access.require(call.peer, AclOperation.DELETE, ResourceType.GROUP, request.group_id)
        allowed, refused = yield from split(
            request.topics, lambda topic: deps.access.to_topic(call.peer, AclOperation.READ, topic.topic_name)
        )
        rows = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, error_code=DENIED, error_message=DENIED_TEXT
            )
            for topic in refused
        ]
        return _leave_allowed(call, allowed, rows)


def _leave_allowed(call: Call, allowed: list[Any], rows: list[Any]) -> None:
    """Leave the allowed topics in the request; rows are added to a response that is no error of the group."""
    if not rows:
        return
    call.body = copy.copy(call.body)
    call.body.topics = allowed

    def amend(
        message: AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse,
    ) -> AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse:
        if not message.error_code:
            message.responses = [*rows, *message.responses]
        return message

    call.amend = amend
