"""ConsumerGroupHeartbeat: a member joins, stays or leaves, and moves on towards its target.

who is it ──► what does it subscribe to ──► group epoch ──► target ──► its own partitions ──► the answer
"""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import ConsumerHeartbeat, HeartbeatAnswer, Step, StepContext
from sordini.broker.groups.consumer.machine.leaving import leave
from sordini.broker.groups.consumer.machine.membership import joined_member, known_member
from sordini.broker.groups.consumer.machine.progress import move_on, subscribe, unsubscribed_topics
from sordini.broker.groups.consumer.machine.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_TIMEOUT,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owned,
    partitions_of,
)
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition


def heartbeat(group: ConsumerGroup, event: ConsumerHeartbeat, around: StepContext) -> Step:
    """Raises BrokerError for a refused request."""
    if _is_steady(group, event, around):
        return _steady(group, event, around)
    transition = ConsumerTransition(group, around)
    if event.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return transition.finish(leave(transition, event))
    member_of = joined_member if event.member_epoch == JOIN_EPOCH else known_member
    member = member_of(transition, event)
    updated = _subscribed(member, event)
    subscribe(transition, member, updated)
    is_other = _subscription(updated) != _subscription(member)
    move_on(transition, updated, event.owned, unsubscribed_topics(transition, updated) if is_other else ())
    transition.restart_session(updated.member_id)
    return transition.finish(_answer(transition, group.members.get(updated.member_id), updated.member_id, event))


# The most frequent heartbeat.


def _is_steady(group: ConsumerGroup, event: ConsumerHeartbeat, around: StepContext) -> bool:
    """Whether the member has its target, says nothing new, and nothing is new for it."""
    member = group.members.get(event.member_id)
    return (
        member is not None
        and member.state is MemberState.STABLE
        and member.classic is None
        and event.member_epoch == member.epoch == group.assignment_epoch == group.epoch
        and event.subscribed_topics is None
        and event.subscribed_regex is None
        and event.rebalance_timeout_ms == NO_TIMEOUT
        and event.server_assignor is None
        and event.rack_id is None
        and event.instance_id == member.instance_id
        and (event.client_id, event.client_host) == (member.client_id, member.client_host)
        and group.topics_version == around.topics.version
        and (not group.regexes or around.now.monotonic_ms < group.regexes_due_ms)
    )


def _steady(group: ConsumerGroup, event: ConsumerHeartbeat, around: StepContext) -> Step:
    deadline_ms = around.now.monotonic_ms + around.settings.session_timeout_ms
    group.session_deadlines_ms[event.member_id] = deadline_ms
    answer = HeartbeatAnswer(event.member_id, event.member_epoch, around.settings.heartbeat_interval_ms, None)
    if group.due_ms is None or deadline_ms < group.due_ms:
        group = group._replace(due_ms=deadline_ms)
    return Step(group, answer=answer)


# Steps of any other.


def _subscribed(member: ConsumerMember, event: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what the heartbeat says of it."""
    regex = member.subscribed_regex if event.subscribed_regex is None else event.subscribed_regex or None
    return member._replace(
        instance_id=event.instance_id if event.instance_id is not None else member.instance_id,
        rack_id=event.rack_id if event.rack_id is not None else member.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topics=member.subscribed_topics if event.subscribed_topics is None else event.subscribed_topics,
        subscribed_regex=regex,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if event.rebalance_timeout_ms == NO_TIMEOUT else event.rebalance_timeout_ms
        ),
        server_assignor=event.server_assignor if event.server_assignor is not None else member.server_assignor,
        classic=None,
    )


def _subscription(member: ConsumerMember) -> tuple[frozenset[str], str | None]:
    return member.subscribed_topics, member.subscribed_regex


def _answer(
    transition: ConsumerTransition, before: ConsumerMember | None, member_id: str, event: ConsumerHeartbeat
) -> HeartbeatAnswer:
    """With the assignment if the member lacks it: it joins, says everything, or gets another one."""
    member = transition.members[member_id]
    is_sent = event.member_epoch == JOIN_EPOCH or event.is_full or before is None
    if is_sent or not _is_same(before.assigned if before is not None else {}, member.assigned):
        assignment = partitions_of(member.assigned)
    else:
        assignment = None
    interval_ms = transition.around.settings.heartbeat_interval_ms
    return HeartbeatAnswer(member_id, member.epoch, interval_ms, assignment)


def _is_same(first: Owned, second: Owned) -> bool:
    """Whether the partitions are the same, whatever their epochs."""
    return first is second or partitions_of(first) == partitions_of(second)
