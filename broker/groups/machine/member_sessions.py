"""Sessions and other deadlines: heartbeats, commits, and what is due when.

A heartbeat is the commonest of all events, so it touches nothing but its member. `Group.due_ms` is a lower bound of all
deadlines: whoever sets one lowers it, who puts one off lets it be, and a `Tick` or another state makes it exact.

The broker's own stall is no member's fault. When a tick comes late, whoever seems to be gone may have been speaking
into a socket that nobody read. So what has ended then is looked at again a while later, when all that waited has been
heard: a `Grace`. Each deadline is given it once, so that a broker that is late every time still finds out who is gone.
"""

from __future__ import annotations

from types import MappingProxyType

from sordini.broker.groups.machine import rebalance
from sordini.broker.groups.machine.events import Action, Answer, Committing, Heartbeat, Now, Reply
from sordini.broker.groups.machine.leave_group import went
from sordini.broker.groups.machine.member_validation import refusal
from sordini.broker.groups.machine.state import Grace, Group, GroupState
from sordini.broker.groups.machine.transition import Turn
from sordini.protocol.errors import ErrorCode

GRACE_MS_MIN = 50
"""The shortest grace: some rounds of the loop."""
GRACE_MS_MAX = 10_000
"""The longest grace of a group without members. Members that live are heard within their session timeout."""

HEARTBEAT_ANSWERS = {
    GroupState.PREPARING_REBALANCE: Answer(ErrorCode.REBALANCE_IN_PROGRESS),
    GroupState.COMPLETING_REBALANCE: Answer(ErrorCode.NONE),
    GroupState.STABLE: Answer(ErrorCode.NONE),
}
COMMIT_ANSWERS = {
    GroupState.PREPARING_REBALANCE: Answer(ErrorCode.NONE),
    GroupState.COMPLETING_REBALANCE: Answer(ErrorCode.REBALANCE_IN_PROGRESS),
    GroupState.STABLE: Answer(ErrorCode.NONE),
}
"""While members are asked to join, those who have not yet may still commit what they have done."""


def heartbeat(group: Group, event: Heartbeat, now: Now) -> tuple[Group, list[Action]]:
    error = _refusal(group, event)
    if error is not None:
        return group, [Reply(event.caller, Answer(error))]
    return _heard(group, event.member_id, now), [Reply(event.caller, HEARTBEAT_ANSWERS[group.state])]


def committing(group: Group, event: Committing, now: Now) -> tuple[Group, list[Action]]:
    """Check a commit. Who is no member may commit only while nobody is (`generation_id` -1)."""
    if group.state is GroupState.EMPTY and event.generation_id < 0:
        return group, [Reply(event.caller, Answer(ErrorCode.NONE))]
    error = _refusal(group, event)
    if error is not None:
        return group, [Reply(event.caller, Answer(error))]
    if group.state is not GroupState.COMPLETING_REBALANCE:
        group = _heard(group, event.member_id, now)
    return group, [Reply(event.caller, COMMIT_ANSWERS[group.state])]


def _refusal(group: Group, event: Heartbeat | Committing) -> ErrorCode | None:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = refusal(group.members, group.static_ids, event.member_id, event.group_instance_id)
    if error is None and event.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _heard(group: Group, member_id: str, now: Now) -> Group:
    """Start one session anew. `_replace` would take three times as long."""
    member = group.members[member_id]
    ends_ms = now.monotonic_ms + member.session_timeout_ms
    members = group.members.copy()  # `dict(...)` of a view is ten times slower.
    members[member_id] = member.with_session(ends_ms)
    due_ms = ends_ms if group.due_ms is None or ends_ms < group.due_ms else group.due_ms
    return group.with_members(MappingProxyType(members), due_ms)


def tick(turn: Turn, late_ms: int) -> None:
    """Do what is due. In a late tick, that is only what has had its grace, and what costs nobody anything."""
    grace, now_ms = turn.grace, turn.now_ms
    if grace is not None and now_ms < grace.ends_ms:
        turn.due_ms = grace.ends_ms  # A deadline set meanwhile may be earlier: it would be asked for again at once.
        return
    turn.grace = None
    if not late_ms:
        _expire(turn, now_ms)
    elif grace is not None:
        _expire(turn, grace.covers_ms)
    if turn.initial is not None and turn.rebalance_ends_ms is not None and turn.rebalance_ends_ms <= now_ms:
        rebalance.end(turn)
    turn.due_ms = turn.earliest_ms()
    if late_ms and turn.due_ms is not None and turn.due_ms <= now_ms:
        turn.due_ms = now_ms + _grace_ms(turn, late_ms)
        turn.grace = Grace(now_ms, turn.due_ms)


def _grace_ms(turn: Turn, late_ms: int) -> int:
    longest_ms = max((member.session_timeout_ms for member in turn.members.values()), default=GRACE_MS_MAX)
    return max(min(late_ms, longest_ms), GRACE_MS_MIN)


def _expire(turn: Turn, until_ms: int) -> None:
    """Everything whose time was up at `until_ms`."""
    for member_id in [member_id for member_id, lapses_ms in turn.pending.items() if lapses_ms <= until_ms]:
        turn.remove(member_id)
    ended = [member_id for member_id, member in turn.members.items() if _is_over(member.expires_ms, until_ms)]
    if _is_over(turn.sync_ends_ms, until_ms):
        ended += [member_id for member_id, member in turn.members.items() if member.owes_sync]
    for member_id in ended:
        turn.remove(member_id)
    if ended:
        went(turn)
    elif _is_over(turn.rebalance_ends_ms, until_ms):
        rebalance.end(turn)
    else:
        rebalance.settle(turn)  # Perhaps only an id was waited for that lapsed.


def _is_over(deadline_ms: int | None, until_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms <= until_ms
