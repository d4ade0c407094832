"""A group of any kind as its coordinator describes it.

A *classic* group (JoinGroup) is described by DescribeGroups, a *consumer* group (KIP-848) by ConsumerGroupDescribe, a
*share* group (KIP-932) by ShareGroupDescribe. To each of these requests, a group of another kind does not exist.
"""

from __future__ import annotations

from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.client.cluster import Link
from sordini.client.errors import check, only_row
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.consumer_assignment import read_assignment
from sordini.protocol.consumer_subscription import read_subscription
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import consumer_group_describe, describe_groups, share_group_describe
from sordini.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sordini.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""A type of groups, a protocol of members, and the protocol type of consumers in classic groups."""
SHARE: Final = "share"
"""A type of groups, and what their members are."""
OTHER_TYPES: Final = ("streams",)
"""Types of groups that brokers of Apache Kafka have and these commands do not know."""
DEAD: Final = "Dead"
MEMBER_PROTOCOLS: Final = {0: CLASSIC, 1: CONSUMER}
"""By the member type of ConsumerGroupDescribe."""
NO_SUCH_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Answers to ConsumerGroupDescribe and ShareGroupDescribe; the latter is that of a broker of Apache Kafka without such
groups.
"""


class OtherGroupType(Failure):
    """A group is there, of a type that is listed and not described."""


class GroupMember(NamedTuple):
    """One member; None is what a group of its kind does not have, or what is not known."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition] | None
    """What it has, with what it has yet to give up; None if its assignment is not a consumer's."""
    protocol: str | None
    rack_id: str | None = None
    subscribed_topics: list[str] | None = None
    subscribed_regex: str | None = None
    epoch: int | None = None
    target: list[TopicPartition] | None = None
    """What it is to have; in a share group it has that."""


class GroupDescription(NamedTuple):
    """One group; a group that does not exist is Dead and has no type."""

    group: str
    state: str
    kind: str | None
    protocol_type: str
    assignor: str
    coordinator: str
    members: list[GroupMember]
    epoch: int | None = None
    assignment_epoch: int | None = None


async def describe_group(cluster: ClusterClient, group: str) -> GroupDescription:
    """A group's state and members. Raises Refused, and Failure for a group of a kind that is not known here."""

    async def attempt() -> GroupDescription:
        link = await cluster.coordinator(group)
        for described_as in (_classic_group, _consumer_group, _share_group):
            found = await described_as(link, group)
            if found is not None:
                return found
        return await _no_group(link, group)

    return await cluster.retry(attempt)


async def _classic_group(link: Link, group: str) -> GroupDescription | None:
    answer: DescribeGroupsResponse = await link.ask(DescribeGroupsRequest(groups=[group]))
    found = only_row(answer.groups, f"group '{group}'")
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # From version 6 on.
        return None
    check(f"group '{group}'", found.error_code, found.error_message)
    if found.group_state == DEAD:
        return None
    members = [_classic_member(member, found.protocol_type) for member in found.members]
    return GroupDescription(
        found.group_id, found.group_state, CLASSIC, found.protocol_type, found.protocol_data, str(link.address), members
    )


def _classic_member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> GroupMember:
    is_consumer = protocol_type == CONSUMER
    subscription = read_subscription(bytes(member.member_metadata)) if is_consumer else None
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        read_assignment(bytes(member.member_assignment)) if is_consumer else None,
        CLASSIC,
        rack_id=(subscription[1].rack_id or None) if subscription else None,
        subscribed_topics=sorted(subscription[1].topics) if subscription else None,
    )


async def _consumer_group(link: Link, group: str) -> GroupDescription | None:
    if not link.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
        return None
    answer: ConsumerGroupDescribeResponse = await link.ask(ConsumerGroupDescribeRequest(group_ids=[group]))
    found = only_row(answer.groups, f"group '{group}'")
    if found.error_code in NO_SUCH_GROUP:
        return None
    check(f"group '{group}'", found.error_code, found.error_message)
    return GroupDescription(
        found.group_id,
        found.group_state,
        CONSUMER,
        CONSUMER,
        found.assignor_name,
        str(link.address),
        [_consumer_member(member) for member in found.members],
        found.group_epoch,
        found.assignment_epoch,
    )


def _consumer_member(member: consumer_group_describe.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        MEMBER_PROTOCOLS.get(member.member_type),
        member.rack_id or None,  # librdkafka's classic members have an empty one.
        sorted(member.subscribed_topic_names),
        member.subscribed_topic_regex or None,
        member.member_epoch,
        _partitions(member.target_assignment),
    )


async def _share_group(link: Link, group: str) -> GroupDescription | None:
    if not link.serves(ApiKey.SHARE_GROUP_DESCRIBE):
        return None
    answer: ShareGroupDescribeResponse = await link.ask(ShareGroupDescribeRequest(group_ids=[group]))
    found = only_row(answer.groups, f"group '{group}'")
    if found.error_code in NO_SUCH_GROUP:
        return None
    check(f"group '{group}'", found.error_code, found.error_message)
    return GroupDescription(
        found.group_id,
        found.group_state,
        SHARE,
        SHARE,
        found.assignor_name,
        str(link.address),
        [_share_member(member) for member in found.members],
        found.group_epoch,
        found.assignment_epoch,
    )


def _share_member(member: share_group_describe.Member) -> GroupMember:
    assigned = _partitions(member.assignment)
    return GroupMember(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        assigned,
        SHARE,
        member.rack_id or None,
        sorted(member.subscribed_topic_names),
        None,
        member.member_epoch,
        assigned,
    )


def _partitions(
    assignment: consumer_group_describe.Assignment | share_group_describe.Assignment,
) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


async def _no_group(link: Link, group: str) -> GroupDescription:
    """Raises OtherGroupType if there is such a group, but of another kind."""
    if link.serves(ApiKey.LIST_GROUPS, 5):
        answer: ListGroupsResponse = await link.ask(ListGroupsRequest(types_filter=[*OTHER_TYPES]))
        kind = next((row.group_type for row in answer.groups if row.group_id == group), None)
        if kind is not None and kind.lower() in OTHER_TYPES:
            raise OtherGroupType(
                f"group '{group}' is a {kind.lower()} group: this command knows classic, consumer and share groups"
            )
    return GroupDescription(group, DEAD, None, "", "", str(link.address), [])
