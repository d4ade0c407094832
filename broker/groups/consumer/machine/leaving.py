"""Members that leave, are removed, or are fenced, and static members that leave for a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordini.broker.groups.consumer.machine.changes import (
    AssignmentChange,
    GroupEpochChange,
    OldMetadataChange,
    RegexChange,
    SubscriptionChange,
    TargetChange,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.events import ClassicState, ConsumerHeartbeat, EpochCause, HeartbeatAnswer
from sordini.broker.groups.consumer.machine.membership import identified_member
from sordini.broker.groups.consumer.machine.regexes import drop_unused
from sordini.broker.groups.consumer.machine.state import JOIN_EPOCH, NOTHING_OWNED, STATIC_LEAVE_EPOCH, ConsumerMember
from sordini.broker.groups.consumer.machine.target import (
    has_only_classic_members,
    raise_epoch,
    use_no_target,
)
from sordini.broker.groups.consumer.machine.topic_hashes import NO_TOPICS
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause


def leave(transition: ConsumerTransition, event: ConsumerHeartbeat) -> HeartbeatAnswer:
    """Raises BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member = identified_member(transition, event.member_id, event.instance_id)
    if event.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_a_while(transition, member)
    else:
        cause = EpochCause(RebalanceCause.MEMBER_LEFT, f"member {member.member_id} left", (member,))
        remove(transition, [member], cause)
    return HeartbeatAnswer(event.member_id, event.member_epoch, 0, None)


def remove(transition: ConsumerTransition, members: list[ConsumerMember], cause: EpochCause) -> None:
    """Remove members: their partitions are free at once, and the next heartbeat of another one assigns them."""
    if becomes_classic(transition, without=members):
        end_as_classic(transition, members)
        return
    for member in members:
        transition.drop_member(member)
    drop_unused(transition, (member.subscribed_regex for member in members))
    if transition.members:
        raise_epoch(transition, cause, transition.metadata_hash)
        if has_only_classic_members(transition):
            now, settings = transition.around.now, transition.around.settings
            transition.schedule(now.monotonic_ms + settings.heartbeat_interval_ms + settings.assignment_interval_ms)
    else:
        raise_epoch(transition, cause, NO_TOPICS)
        use_no_target(transition)


def becomes_classic(transition: ConsumerTransition, without: Iterable[ConsumerMember] = ()) -> bool:
    """Whether only members of the classic protocol are left, and the group may be theirs again."""
    if not transition.around.settings.allows_downgrade:
        return False
    leaving = {member.member_id for member in without}
    left = [member for member_id, member in transition.members.items() if member_id not in leaving]
    return bool(left) and all(member.classic is not None for member in left)


def end_as_classic(transition: ConsumerTransition, leaving: Sequence[ConsumerMember] = ()) -> None:
    """Tombstones for all that is written; the members that stay are those of a classic group from now on.

    They have to join again, unless one of them has just taken the place of a static member and nothing else changed.
    """
    ids = list(dict.fromkeys((*(member.member_id for member in leaving), *transition.members)))
    for member in leaving:
        transition.drop_member(member, is_written=False)
    transition.changes += (AssignmentChange(member_id, None) for member_id in ids)
    transition.changes += (TargetChange(member_id, None) for member_id in ids)
    transition.changes.append(TargetEpochChange(None))
    transition.changes += (SubscriptionChange(member_id, None) for member_id in ids)
    transition.changes += (RegexChange(regex, None) for regex in transition.regexes)
    transition.changes += (OldMetadataChange(), GroupEpochChange(None))
    transition.becomes_classic = ClassicState.REBALANCING if leaving else ClassicState.STABLE


def _leave_for_a_while(transition: ConsumerTransition, member: ConsumerMember) -> None:
    """The member has closed its consumer: what it had to give up is free, and what it had stays its own."""
    transition.stop_rebalance_timer(member.member_id)
    kept = {topic: dict.fromkeys(epochs, JOIN_EPOCH) for topic, epochs in member.assigned.items()}
    transition.write_assignment(
        member._replace(epoch=STATIC_LEAVE_EPOCH, assigned=kept, pending_revocation=NOTHING_OWNED)
    )
