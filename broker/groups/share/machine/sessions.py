"""Sessions of a share group's members. As in a consumer group, a stall of the broker fences no member."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import MemberFenced
from sordini.broker.groups.consumer.machine.sessions import GRACE_MS_MIN
from sordini.broker.groups.consumer.machine.state import GracePeriod
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.share.machine.heartbeat import remove
from sordini.broker.groups.share.machine.transition import ShareTransition

EXPIRED = "session expired"


def tick(transition: ShareTransition, late_ms: int) -> None:
    """Fence the members whose sessions have expired. Sets the next deadline."""
    now_ms = transition.around.now.monotonic_ms
    until_ms = _fenced_until(transition, now_ms, late_ms)
    if until_ms is None:
        return
    expired = [member_id for member_id, due_ms in transition.session_deadlines_ms.items() if due_ms <= until_ms]
    for member_id in expired:
        transition.actions.append(MemberFenced(member_id, None, EXPIRED))
        member = transition.members[member_id]
        remove(transition, [member], RebalanceCause.SESSION_TIMEOUT, f"{member_id}: {EXPIRED}")
    transition.due_ms = min(transition.session_deadlines_ms.values(), default=None)
    if transition.due_ms is not None and transition.due_ms <= now_ms:
        _begin_grace(transition, now_ms, late_ms)  # It has had none: the broker stalled again.


def _fenced_until(transition: ShareTransition, now_ms: int, late_ms: int) -> int | None:
    """Up to which deadline members are fenced now; None: what is due has to wait, since the broker stalled."""
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


def _begin_grace(transition: ShareTransition, now_ms: int, late_ms: int) -> None:
    """What is due is due again at the end of the grace period."""
    wait_ms = min(max(late_ms, GRACE_MS_MIN), transition.around.settings.session_timeout_ms)
    transition.grace = GracePeriod(now_ms, now_ms + wait_ms)
    transition.due_ms = now_ms + wait_ms
