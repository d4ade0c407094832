"""What every join and heartbeat does, of either protocol: subscription, group epoch, target, the member's next step."""

from __future__ import annotations

from collections.abc import Sequence

from sordini.broker.groups.consumer.machine.changes import SubscriptionChange, assignment_of
from sordini.broker.groups.consumer.machine.events import EpochCause
from sordini.broker.groups.consumer.machine.reconciliation import Target, reconciled
from sordini.broker.groups.consumer.machine.regexes import follow_regex, resolve_again
from sordini.broker.groups.consumer.machine.state import NO_PARTITIONS, ConsumerMember, MemberState, Partitions
from sordini.broker.groups.consumer.machine.target import assign_if_due, follow_topics, has_new_topics, topics_of
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, named_changes
from sordini.protocol.types import TopicId


def subscribe(transition: ConsumerTransition, member: ConsumerMember, updated: ConsumerMember) -> None:
    """Record what a member says of itself, raise the group epoch if need be, and compute the target."""
    cause = _subscribe(transition, member, updated)
    if has_new_topics(transition) or transition.around.now.monotonic_ms >= transition.regexes_due_ms:
        resolve_again(transition)
    if cause is not None or has_new_topics(transition):
        follow_topics(transition, cause)
    assign_if_due(transition)


def move_on(
    transition: ConsumerTransition,
    member: ConsumerMember,
    owned: Partitions | None,
    unsubscribed: Sequence[TopicId] = (),
) -> None:
    """The member's next step towards its target. Raises BrokerError FENCED_MEMBER_EPOCH (`reconciled`)."""
    member_id = member.member_id

    def is_free(topic: TopicId, partition: int) -> bool:
        return transition.is_free(topic, partition, member_id)

    target = Target(transition.assignment_epoch, transition.targets.get(member_id, NO_PARTITIONS))
    moved = reconciled(member, target, owned, is_free, unsubscribed)
    if moved is member or assignment_of(moved) == assignment_of(member):
        return
    transition.write_assignment(moved)
    if moved.state is MemberState.UNREVOKED_PARTITIONS:
        transition.start_rebalance_timer(member_id, moved.rebalance_timeout_ms)
    else:
        transition.stop_rebalance_timer(member_id)


def unsubscribed_topics(transition: ConsumerTransition, member: ConsumerMember) -> Sequence[TopicId]:
    """The topics that a member has, and does not subscribe to any more."""
    found = map(transition.around.topics.get, topics_of(member, transition.regexes))
    wanted = {topic.topic_id for topic in found if topic is not None}
    return [topic_id for topic_id in member.assigned if topic_id not in wanted]


def _subscribe(transition: ConsumerTransition, member: ConsumerMember, updated: ConsumerMember) -> EpochCause | None:
    """Why the group epoch has to be raised, or None."""
    is_new = member.member_id not in transition.members
    if is_new or updated != member:
        transition.put_member(updated)
        transition.changes.append(SubscriptionChange(updated.member_id, updated))
    has_new_regex = follow_regex(transition, member.subscribed_regex, updated.subscribed_regex)
    if updated.subscribed_topics != member.subscribed_topics or has_new_regex:
        return _subscription_cause(transition, member, updated, is_new=is_new)
    if updated.server_assignor != member.server_assignor:
        assignor = updated.server_assignor or "the default"
        reason = f"member {updated.member_id} names the assignor {assignor}"
        return EpochCause(RebalanceCause.ASSIGNOR_CHANGED, reason, (updated,), assignor)
    return None


def _subscription_cause(
    transition: ConsumerTransition, member: ConsumerMember, updated: ConsumerMember, *, is_new: bool
) -> EpochCause:
    if is_new:
        return EpochCause(RebalanceCause.MEMBER_JOINED, f"member {updated.member_id} joined", (updated,))
    is_replaced = updated.member_id not in transition.before.members
    cause = RebalanceCause.STATIC_MEMBER_REPLACED if is_replaced else RebalanceCause.SUBSCRIPTION_CHANGED
    changes = [named_changes(member.subscribed_topics, updated.subscribed_topics)]
    if updated.subscribed_regex != member.subscribed_regex and updated.subscribed_regex:
        changes.append(f"pattern {updated.subscribed_regex}")
    elif member.subscribed_regex and not updated.subscribed_regex:
        changes.append(f"without pattern {member.subscribed_regex}")
    detail = " ".join(filter(None, changes))
    return EpochCause(cause, f"member {updated.member_id} subscribed to other topics", (updated,), detail)
