"""Who sent a heartbeat, and whether it is still what the coordinator knows: ids, instance ids and epochs."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.changes import SubscriptionChange, TargetChange, assignment_of
from sordini.broker.groups.consumer.machine.events import ConsumerHeartbeat, EpochCause
from sordini.broker.groups.consumer.machine.state import (
    JOIN_EPOCH,
    NO_PARTITIONS,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    Owned,
    Partitions,
)
from sordini.broker.groups.consumer.machine.target import raise_epoch
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.protocol.errors import BrokerError, ErrorCode


def joined_member(transition: ConsumerTransition, event: ConsumerHeartbeat) -> ConsumerMember:
    """The member of a join: a new one, the one it was before, or the successor of a static member that has left.

    A member that joins again owns nothing any more, whatever epoch it had. Raises BrokerError GROUP_MAX_SIZE_REACHED,
    UNRELEASED_INSTANCE_ID.
    """
    if event.member_id not in transition.members:
        transition.check_size()
    former = None if event.instance_id is None else transition.static_member(event.instance_id)
    if former is None:
        return transition.members.get(event.member_id) or ConsumerMember(event.member_id)
    if former.epoch != STATIC_LEAVE_EPOCH and former.classic is None:
        raise BrokerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {event.member_id} with instance id {event.instance_id} cannot join the group because the "
            f"instance id is owned by {former.member_id} member.",
        )
    return successor_of(transition, former, event.member_id)


def known_member(transition: ConsumerTransition, event: ConsumerHeartbeat) -> ConsumerMember:
    """The member of a later heartbeat. Raises BrokerError as `identified_member`, and FENCED_MEMBER_EPOCH."""
    member = identified_member(transition, event.member_id, event.instance_id)
    _check_epoch(member, event)
    return member


def identified_member(transition: ConsumerTransition, member_id: str, instance_id: str | None) -> ConsumerMember:
    """A member by its ids. Raises BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if instance_id is None:
        member = transition.members.get(member_id)
        if member is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {transition.group_id}."
            )
        return member
    return known_static(transition, member_id, instance_id)


def known_static(transition: ConsumerTransition, member_id: str, instance_id: str) -> ConsumerMember:
    """A static member by both its ids. Raises BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    static = transition.static_member(instance_id)
    if static is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise BrokerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}.",
        )
    return static


def _check_epoch(member: ConsumerMember, event: ConsumerHeartbeat) -> None:
    """The previous epoch is accepted of a member that missed the last answer, and so owns no more than it had."""
    sent = event.member_epoch
    if sent > member.epoch:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a greater member epoch ({sent}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    is_previous = sent == member.previous_epoch and _is_subset(event.owned, member.assigned)
    if sent < member.epoch and not is_previous:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a smaller member epoch ({sent}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )


def _is_subset(owned: Partitions | None, assigned: Owned) -> bool:
    if owned is None:
        return False
    return all(topic in assigned and partitions <= assigned[topic].keys() for topic, partitions in owned.items())


def successor_of(transition: ConsumerTransition, former: ConsumerMember, member_id: str) -> ConsumerMember:
    """Give a static member that has left another id: it keeps its target and its partitions."""
    target = transition.targets.get(former.member_id, NO_PARTITIONS)
    transition.drop_member(former)
    other = transition.members.get(member_id)
    if other is not None:
        # A member that is there takes another one's place: what it had itself is to be assigned again.
        transition.drop_member(other)
        cause = EpochCause(
            RebalanceCause.STATIC_MEMBER_REPLACED, f"member {member_id} has another instance id", (other,)
        )
        raise_epoch(transition, cause, transition.metadata_hash)
    successor = former._replace(member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    transition.put_member(successor)
    transition.put_target(member_id, target)
    transition.changes += (
        SubscriptionChange(member_id, successor),
        TargetChange(member_id, target),
        assignment_of(successor),
    )
    return successor
