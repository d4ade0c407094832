"""A classic group of consumers becomes a consumer group while it has members (KIP-848), and the other way round. Pure.

What a member owns it goes on consuming: its assignment becomes its target and its partitions, and its target becomes
its assignment.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.groups.consumer.machine.changes import (
    Change,
    GroupEpoch,
    GroupEpochChange,
    SubscriptionChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
    assignment_of,
)
from sordini.broker.groups.consumer.machine.events import ConsumerLimits, Topics
from sordini.broker.groups.consumer.machine.folded import FoldedGroup
from sordini.broker.groups.consumer.machine.state import (
    NO_PARTITIONS,
    ClassicMember,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    Partitions,
)
from sordini.broker.groups.consumer.machine.target import metadata_hash
from sordini.broker.groups.machine.events import GroupReply, JoinAnswer, SyncAnswer
from sordini.broker.groups.machine.state import Group, GroupValue, Member, MemberValue
from sordini.protocol.consumer_assignment import has_user_data, read_assignment, written_assignment
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL, read_subscription
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId

CONVERTED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Subscriptions and assignments of all members, which are read in one go: 500 members with 100 topics have 1.5 MB."""


def upgraded(group: Group, topics: Topics, limits: ConsumerLimits) -> tuple[Change, ...]:
    """The records of a consumer group with the members of a classic one; its generation is the group epoch.

    Raises BrokerError GROUP_ID_NOT_FOUND for a group of other clients than consumers, and of an unknown assignor.
    """
    if not limits.allows_upgrade:
        raise _not_upgraded(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > limits.members_max:
        raise _not_upgraded(group, "the group size exceeds the maximum size of a consumer group.")
    size = sum(len(member.metadata(group.protocol_name)) + len(member.assignment) for member in group.members.values())
    if size > CONVERTED_BYTES_MAX:
        text = f"its subscriptions and assignments have {size} bytes, {CONVERTED_BYTES_MAX} are read."
        raise _not_upgraded(group, text)
    members = [_consumer_member(group, member, topics) for member in group.members.values()]
    owned = [(topic, partition) for m in members for topic, epochs in m.assigned.items() for partition in epochs]
    if len(set(owned)) < len(owned):
        raise _not_upgraded(group, "a partition is assigned to two of its members.")
    names = frozenset[str]().union(*(member.subscribed_topics for member in members))
    epoch = group.generation_id
    targets = (TargetChange(m.member_id, {t: frozenset(e) for t, e in m.assigned.items()}) for m in members)
    return (
        *(SubscriptionChange(member.member_id, member) for member in members),
        GroupEpochChange(GroupEpoch(epoch, metadata_hash(names, topics))),
        *targets,
        TargetEpochChange(TargetEpoch(epoch, 0)),
        *(assignment_of(member) for member in members),
    )


def interrupted_requests(group: Group) -> list[GroupReply]:
    """The answers to requests that wait in a classic group as it becomes a consumer group: its members join again."""
    code, found = ErrorCode.REBALANCE_IN_PROGRESS, list[GroupReply]()
    for member in group.members.values():
        if member.awaiting_join is not None:
            found.append(GroupReply(member.awaiting_join, JoinAnswer(code, member_id=member.member_id)))
        if member.awaiting_sync is not None:
            found.append(GroupReply(member.awaiting_sync, SyncAnswer(code)))
    return found


def group_of(group_id: str, changes: tuple[Change, ...], now_ms: int) -> ConsumerGroup:
    """The consumer group of these records, whose members' sessions start now (monotonic)."""
    folded = FoldedGroup(group_id)
    for change in changes:
        folded.fold(change)
    group = folded.group(now_ms, 0)
    assert group is not None
    return group


def _consumer_member(group: Group, member: Member, topics: Topics) -> ConsumerMember:
    """Raises BrokerError GROUP_ID_NOT_FOUND."""
    metadata = member.metadata(group.protocol_name) or member.protocols[0].metadata
    subscription = read_subscription(metadata)
    assigned = read_assignment(member.assignment)
    if subscription is None or assigned is None:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed.")
    if has_user_data(member.assignment):
        raise _not_upgraded(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    owned: dict[TopicId, dict[int, int]] = {}
    for name, partition in assigned:
        topic = topics.get(name)
        # The topic may have been deleted, and made again with fewer partitions.
        if topic is not None and 0 <= partition < topic.partitions:
            owned.setdefault(topic.topic_id, {})[partition] = group.generation_id
    _, subscribed = subscription
    return ConsumerMember(
        member.member_id,
        member.group_instance_id,
        subscribed.rack_id,
        member.client_id,
        member.client_host,
        frozenset(subscribed.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        epoch=group.generation_id,
        previous_epoch=group.generation_id,
        assigned=owned,
        classic=ClassicMember(
            member.session_timeout_ms,
            tuple(ClassicProtocol(protocol.name, protocol.metadata) for protocol in member.protocols),
        ),
    )


def _not_upgraded(group: Group, reason: str) -> BrokerError:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}"
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def downgraded(group: ConsumerGroup, topics: Topics, now_wall_ms: int) -> GroupValue:
    """The record of a classic group with the members of a consumer group, all of which speak the classic protocol."""
    protocol_name = _common_protocol(group)
    members = tuple(_member_value(group, member, protocol_name, topics) for member in group.members.values())
    return GroupValue(CONSUMER_PROTOCOL, group.epoch, protocol_name, members[0].member_id, now_wall_ms, members)


def _common_protocol(group: ConsumerGroup) -> str:
    """The first protocol of the first member that all others have; if there is none, its first."""
    supported = [
        [protocol.name for protocol in member.classic.protocols]
        for member in group.members.values()
        if member.classic is not None
    ]
    common = set(supported[0]).intersection(*supported)
    return next((name for name in supported[0] if name in common), supported[0][0])


def _member_value(group: ConsumerGroup, member: ConsumerMember, protocol_name: str, topics: Topics) -> MemberValue:
    classic = member.classic
    assert classic is not None
    metadata = next((p.metadata for p in classic.protocols if p.name == protocol_name), classic.protocols[0].metadata)
    subscription = read_subscription(metadata)
    target = group.targets.get(member.member_id, NO_PARTITIONS)
    assignment = written_assignment(0 if subscription is None else subscription[0], _rows(target, topics))
    return MemberValue(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        metadata,
        assignment,
    )


def _rows(target: Partitions, topics: Topics) -> list[tuple[str, frozenset[int]]]:
    named = ((topics.name_of(topic_id), partitions) for topic_id, partitions in target.items())
    return [(name, partitions) for name, partitions in named if name is not None]
