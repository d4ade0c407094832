"""Deadlines: sessions, what has to be given up by then, and the interval between targets.

A stall of the broker must fence no member: when a tick is late, heartbeats of members that seem to be gone may wait in
the sockets. What expired by then is checked again a while later, once (`GracePeriod`).
"""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import EpochCause
from sordini.broker.groups.consumer.machine.leaving import remove
from sordini.broker.groups.consumer.machine.state import ConsumerMember, GracePeriod
from sordini.broker.groups.consumer.machine.target import assign_if_due, has_only_classic_members
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause

GRACE_MS_MIN = 50
"""The shortest grace period: several iterations of the loop."""


def tick(transition: ConsumerTransition, late_ms: int) -> None:
    """What is due: fence members, and compute a target that had to wait. Sets the next deadline."""
    now_ms = transition.around.now.monotonic_ms
    until_ms = _fenced_until(transition, now_ms, late_ms)
    if until_ms is None:
        return
    transition.due_ms = None
    expired = [member_id for member_id, due_ms in transition.session_deadlines_ms.items() if due_ms <= until_ms]
    _fence(transition, expired, "session expired", RebalanceCause.SESSION_TIMEOUT)
    if transition.becomes_classic is None:  # A classic group has deadlines of its own for those that are left.
        unrevoked = [name for name, due_ms in transition.rebalance_deadlines_ms.items() if due_ms <= until_ms]
        late = "partitions not revoked within the rebalance timeout"
        _fence(transition, unrevoked, late, RebalanceCause.REVOCATION_TIMEOUT)
    for deadline_ms in (*transition.session_deadlines_ms.values(), *transition.rebalance_deadlines_ms.values()):
        transition.schedule(deadline_ms)
    if _is_due(transition, now_ms):
        _begin_grace(transition, now_ms, late_ms)  # It has had none: the broker stalled again.
    if transition.becomes_classic is None and has_only_classic_members(transition):
        assign_if_due(transition)


def _fenced_until(transition: ConsumerTransition, now_ms: int, late_ms: int) -> int | None:
    """Up to which deadline members are fenced now; None: what is due has to wait, since the broker stalled.

    A tick at the end of a grace period that is late itself fences only what this period covers.
    """
    grace = transition.grace
    if grace is None:
        if not late_ms:
            return now_ms
        _begin_grace(transition, now_ms, late_ms)
        return None
    if now_ms < grace.ends_ms:
        transition.due_ms = grace.ends_ms
        return None
    transition.grace = None
    return grace.covers_ms if late_ms else now_ms


def _is_due(transition: ConsumerTransition, now_ms: int) -> bool:
    return transition.due_ms is not None and transition.due_ms <= now_ms


def _begin_grace(transition: ConsumerTransition, now_ms: int, late_ms: int) -> None:
    """What is due is due again at the end of the grace period."""
    wait_ms = min(max(late_ms, GRACE_MS_MIN), transition.around.settings.session_timeout_ms)
    transition.grace = GracePeriod(now_ms, now_ms + wait_ms)
    transition.due_ms = now_ms + wait_ms


def _fence(transition: ConsumerTransition, member_ids: list[str], reason: str, cause: RebalanceCause) -> None:
    members: list[ConsumerMember] = [transition.members[m] for m in member_ids if m in transition.members]
    if members:
        for member in members:
            transition.fenced(member, reason)
        names = members[0].member_id if len(members) == 1 else f"{len(members)} members"
        remove(transition, members, EpochCause(cause, f"{names}: {reason}", tuple(members)))
