"""ShareGroupHeartbeat: a member joins, stays or leaves.

who is it ──► what does it subscribe to ──► group epoch ──► target ──► its partitions ──► states ──► the answer
"""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import HeartbeatAnswer
from sordini.broker.groups.consumer.machine.target import metadata_hash
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, named_changes
from sordini.broker.groups.share.machine.events import EpochCause, ShareHeartbeat, Step, StepContext
from sordini.broker.groups.share.machine.initialization import initialize_new
from sordini.broker.groups.share.machine.state import JOIN_EPOCH, LEAVE_EPOCH, ShareGroup, ShareMember
from sordini.broker.groups.share.machine.target import (
    assign_if_due,
    follow,
    reconcile,
    topic_names,
    use_no_target,
)
from sordini.broker.groups.share.machine.transition import ShareTransition
from sordini.protocol.errors import BrokerError, ErrorCode


def heartbeat(group: ShareGroup, event: ShareHeartbeat, around: StepContext) -> Step:
    """Raises BrokerError for a refused request."""
    transition = ShareTransition(group, around)
    if event.member_epoch == LEAVE_EPOCH:
        return transition.finish(_leave(transition, event))
    _check_size(transition, event.member_id)
    member = _member(group, event)
    updated = _updated(member, event)
    is_known = event.member_id in group.members
    if updated != member or not is_known:
        transition.write_member(updated)
    is_raised = follow(transition, _cause(member, updated, is_known=is_known), updated)
    assign_if_due(transition)
    reconcile(transition, event.member_id, is_raised=is_raised)
    transition.restart_session(event.member_id)
    initialize_new(transition, topic_names(transition.members if is_raised else group.members))
    return transition.finish(_answer(transition, member, event))


def remove(transition: ShareTransition, members: list[ShareMember], cause: RebalanceCause, reason: str) -> None:
    """Remove members. As in Apache Kafka, each of them raises the group epoch, and the next heartbeat assigns."""
    for member in members:
        transition.drop_member(member.member_id)
        current = metadata_hash(topic_names(transition.members), transition.around.topics)
        transition.raise_epoch(EpochCause(cause, reason, member), current)
        if not transition.members:
            use_no_target(transition)


def _leave(transition: ShareTransition, event: ShareHeartbeat) -> HeartbeatAnswer:
    member = _known_member(transition.before, event.member_id)
    remove(transition, [member], RebalanceCause.MEMBER_LEFT, f"{member.member_id} left")
    return HeartbeatAnswer(event.member_id, LEAVE_EPOCH, 0, None)


def _check_size(transition: ShareTransition, member_id: str) -> None:
    members_max = transition.around.settings.members_max
    if len(transition.members) >= members_max and member_id not in transition.members:
        raise BrokerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {members_max} members.",
        )


def _member(group: ShareGroup, event: ShareHeartbeat) -> ShareMember:
    """Raises BrokerError for a member that is not known, or is fenced."""
    if event.member_epoch == JOIN_EPOCH:
        return group.members.get(event.member_id) or ShareMember(event.member_id)
    member = _known_member(group, event.member_id)
    if event.member_epoch > member.epoch:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({event.member_epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    if event.member_epoch < member.epoch and event.member_epoch != member.previous_epoch:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({event.member_epoch}) than the one known by the group "
            f"coordinator ({member.epoch}), and it does not match the previous member epoch ({member.previous_epoch})."
            " The member must abandon all its partitions and rejoin.",
        )
    return member


def _known_member(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    if member is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _updated(member: ShareMember, event: ShareHeartbeat) -> ShareMember:
    """The member with what the heartbeat says of it."""
    return member._replace(
        rack_id=event.rack_id if event.rack_id is not None else member.rack_id,
        subscribed_topics=member.subscribed_topics if event.subscribed_topics is None else event.subscribed_topics,
        client_id=event.client_id,
        client_host=event.client_host,
    )


def _cause(before: ShareMember, updated: ShareMember, *, is_known: bool) -> EpochCause | None:
    if updated.subscribed_topics == before.subscribed_topics:
        return None
    if not is_known:
        return EpochCause(RebalanceCause.MEMBER_JOINED, f"{updated.member_id} joined", updated)
    detail, reason = named_changes(before.subscribed_topics, updated.subscribed_topics), "subscribes to other topics"
    return EpochCause(RebalanceCause.SUBSCRIPTION_CHANGED, f"{updated.member_id} {reason}", updated, detail)


def _answer(transition: ShareTransition, before: ShareMember, event: ShareHeartbeat) -> HeartbeatAnswer:
    """With the assignment if the member lacks it: it joins, names its topics, or has another one."""
    member = transition.members[event.member_id]
    is_full = event.member_epoch == JOIN_EPOCH or event.subscribed_topics is not None
    is_sent = is_full or member.assigned != before.assigned
    interval_ms = transition.around.settings.heartbeat_interval_ms
    return HeartbeatAnswer(event.member_id, member.epoch, interval_ms, member.assigned if is_sent else None)
