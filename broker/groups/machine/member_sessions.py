"""Sessions and other deadlines: heartbeats, commits, ticks.

A heartbeat is the most frequent event, so it changes nothing but its member. `Group.due_ms` is a lower bound of all
deadlines: setting a deadline lowers it, extending one leaves it, and a `Tick` or another state makes it exact.

A stall of the broker must fence no member. When a tick is late, members whose session seems to have expired may have
sent heartbeats that are still in the sockets. So what expired by then is checked again a while later, a `GracePeriod`.
Each deadline has one grace period, so a broker whose ticks are always late still fences members that are gone.
"""

from __future__ import annotations

from types import MappingProxyType

from sordini.broker.groups.machine import rebalance
from sordini.broker.groups.machine.events import Action, GroupAnswer, GroupReply, Heartbeat, Now, ValidateOffsetCommit
from sordini.broker.groups.machine.leave_group import rebalance_without
from sordini.broker.groups.machine.member_validation import member_error
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.state import GracePeriod, Group, GroupState
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode

GRACE_MS_MIN = 50
"""The shortest grace period: several iterations of the loop."""
GRACE_MS_MAX = 10_000
"""The longest grace period of a group without members; with members it is the longest session timeout."""

FENCED_REASONS = {RebalanceCause.SESSION_TIMEOUT: "session expired", RebalanceCause.SYNC_TIMEOUT: "sync timeout"}
"""Of the log line `member fenced`."""

HEARTBEAT_ANSWERS = {
    GroupState.PREPARING_REBALANCE: GroupAnswer(ErrorCode.REBALANCE_IN_PROGRESS),
    GroupState.COMPLETING_REBALANCE: GroupAnswer(ErrorCode.NONE),
    GroupState.STABLE: GroupAnswer(ErrorCode.NONE),
}
COMMIT_ANSWERS = {
    GroupState.PREPARING_REBALANCE: GroupAnswer(ErrorCode.NONE),
    GroupState.COMPLETING_REBALANCE: GroupAnswer(ErrorCode.REBALANCE_IN_PROGRESS),
    GroupState.STABLE: GroupAnswer(ErrorCode.NONE),
}
"""While a rebalance is prepared, members that have not joined yet may still commit."""


def heartbeat(group: Group, event: Heartbeat, now: Now) -> tuple[Group, list[Action]]:
    error = _member_error(group, event)
    if error is not None:
        return group, [GroupReply(event.caller, GroupAnswer(error))]
    return _with_restarted_session(group, event.member_id, now), [
        GroupReply(event.caller, HEARTBEAT_ANSWERS[group.state])
    ]


def validate_offset_commit(group: Group, event: ValidateOffsetCommit, now: Now) -> tuple[Group, list[Action]]:
    """Check a commit. A client that is no member (`generation_id` -1) may commit while the group is empty.

    One in a transaction is checked only where it names a member, in whatever state the group is.
    """
    if group.state is GroupState.EMPTY and event.generation_id < 0:
        return group, [GroupReply(event.caller, GroupAnswer(ErrorCode.NONE))]
    error = None if _is_anonymous(event) and group.state is not GroupState.DEAD else _member_error(group, event)
    if error is not None or event.is_transactional:
        return group, [GroupReply(event.caller, GroupAnswer(error or ErrorCode.NONE))]
    if group.state is not GroupState.COMPLETING_REBALANCE:
        group = _with_restarted_session(group, event.member_id, now)
    return group, [GroupReply(event.caller, COMMIT_ANSWERS[group.state])]


def _is_anonymous(event: ValidateOffsetCommit) -> bool:
    """Whether a transactional commit names no member: TxnOffsetCommit has these fields from version 3 on."""
    names_member = event.member_id or event.group_instance_id is not None or event.generation_id >= 0
    return event.is_transactional and not names_member


def _member_error(group: Group, event: Heartbeat | ValidateOffsetCommit) -> ErrorCode | None:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = member_error(group.members, group.static_member_ids, event.member_id, event.group_instance_id)
    if error is None and event.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _with_restarted_session(group: Group, member_id: str, now: Now) -> Group:
    """Restart one session. `_replace` would take three times as long."""
    member = group.members[member_id]
    ends_ms = now.monotonic_ms + member.session_timeout_ms
    members = group.members.copy()  # `dict(...)` of a view is ten times slower.
    members[member_id] = member.with_session_deadline(ends_ms)
    due_ms = ends_ms if group.due_ms is None or ends_ms < group.due_ms else group.due_ms
    return group.with_members(MappingProxyType(members), due_ms)


def tick(transition: GroupTransition, late_ms: int) -> None:
    """Do what is due. A late tick does only what has had its grace period, and what fences no member."""
    grace, now_ms = transition.grace, transition.now_ms
    if grace is not None and now_ms < grace.ends_ms:
        transition.due_ms = grace.ends_ms  # Not an earlier deadline set since: the next tick would come at once.
        return
    transition.grace = None
    if not late_ms:
        _expire(transition, now_ms)
    elif grace is not None:
        _expire(transition, grace.covers_ms)
    if transition.initial_delay is not None and _is_due(transition.rebalance_deadline_ms, now_ms):
        rebalance.complete(transition)
    transition.due_ms = transition.earliest_deadline_ms()
    if late_ms and transition.due_ms is not None and transition.due_ms <= now_ms:
        transition.due_ms = now_ms + _grace_ms(transition, late_ms)
        transition.grace = GracePeriod(now_ms, transition.due_ms)


def _grace_ms(transition: GroupTransition, late_ms: int) -> int:
    longest_ms = max((member.session_timeout_ms for member in transition.members.values()), default=GRACE_MS_MAX)
    return max(min(late_ms, longest_ms), GRACE_MS_MIN)


def _expire(transition: GroupTransition, until_ms: int) -> None:
    """Everything that was due at `until_ms`."""
    for member_id, expires_ms in list(transition.pending_joins.items()):
        if expires_ms <= until_ms:
            transition.remove_member(member_id)
    members = transition.members.items()
    expired = {id_: RebalanceCause.SESSION_TIMEOUT for id_, member in members if _is_due(member.expires_ms, until_ms)}
    if _is_due(transition.sync_deadline_ms, until_ms):
        unsynced = (id_ for id_, member in members if member.is_pending_sync)
        expired |= {id_: RebalanceCause.SYNC_TIMEOUT for id_ in unsynced if id_ not in expired}
    for member_id, cause in expired.items():
        member = transition.members[member_id]
        is_silent = cause is RebalanceCause.SESSION_TIMEOUT and not member.awaits_response
        silence = f"no heartbeat within {member.session_timeout_ms} ms" if is_silent else None
        transition.rebalance_caused(cause, member, silence)
        transition.remove_member(member_id, fenced=FENCED_REASONS[cause])
    if expired:
        rebalance_without(transition)
    elif _is_due(transition.rebalance_deadline_ms, until_ms):
        rebalance.complete(transition)
    else:
        rebalance.maybe_complete(transition)  # An expired id may have been the last one missing.


def _is_due(deadline_ms: int | None, until_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms <= until_ms
