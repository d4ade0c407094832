"""The classic group protocol: what becomes of a group, event by event, as Apache Kafka's coordinator decides it.

Pure: `step(group, event, now, limits)` returns the group as it is then and what is to be done, in order. The parts are
in their own modules: `joining` (and `static_members`), `rebalance`, `syncing`, `leaving`, `sessions`. Eager and
cooperative rebalances are the same to the coordinator: what members do with their assignment is theirs.

    EMPTY -- a member joins --> PREPARING -- all joined, or time is up --> COMPLETING -- written --> STABLE
      ^                           |   ^                                        |                       |
      +---- nobody is left -------+   +--- somebody joins, leaves or fails ----+-----------------------+

Invariants, held after every step (`check` asserts them):
  - every request is answered exactly once, or its caller waits in exactly one place;
  - the generation never goes back, and each begins with a protocol that all members know;
  - there is a leader exactly when there are members, and it is one of them;
  - nobody's join waits in a generation, but for static members that are being written; nobody's sync outside of one
    that is completing;
  - static ids, protocol support and the next deadline agree with the members;
  - what is answered as settled (an assignment, a static member's new id, a deletion) is written first.
"""

from __future__ import annotations

from typing import assert_never

from sordini.broker.groups.machine import (
    join_group,
    leave_group,
    member_sessions,
    persistent_state,
    protocol_selection,
    rebalance,
    static_members,
    sync_group,
)
from sordini.broker.groups.machine.events import (
    Action,
    Committing,
    Delete,
    Event,
    GroupLimits,
    Heartbeat,
    Join,
    Leave,
    Now,
    OffsetsGone,
    Sync,
    Tick,
    Unload,
    Written,
)
from sordini.broker.groups.machine.state import (
    Assigning,
    Deleting,
    Emptying,
    Group,
    GroupState,
    GroupValue,
    Replacing,
    Writing,
)
from sordini.broker.groups.machine.transition import Turn


def step(group: Group, event: Event, now: Now, limits: GroupLimits) -> tuple[Group, list[Action]]:
    """Take one event."""
    if isinstance(event, Heartbeat):
        return member_sessions.heartbeat(group, event, now)
    if isinstance(event, Committing):
        return member_sessions.committing(group, event, now)
    turn = Turn(group, now, limits)
    match event:
        case Join():
            join_group.join(turn, event)
        case Sync():
            sync_group.sync(turn, event)
        case Leave():
            leave_group.leave(turn, event)
        case Tick(late_ms):
            member_sessions.tick(turn, late_ms)
        case Written():
            _written(turn, event)
        case Delete():
            leave_group.delete(turn, event)
        case OffsetsGone():
            leave_group.offsets_gone(turn)
        case Unload():
            leave_group.unload(turn)
        case _:
            assert_never(event)
    return turn.finish()


def restored(group_id: str, value: GroupValue, now: Now, limits: GroupLimits) -> Group:
    """The group that a record tells of. One that is larger than is allowed by now begins with a rebalance."""
    group = persistent_state.group_from(group_id, value, now)
    if len(group.members) <= limits.members_max:
        return group
    turn = Turn(group, now, limits)
    rebalance.begin(turn)
    shrinking, actions = turn.finish()
    assert not actions, "nobody waits in a group that was just read"
    return shrinking


def next_due_ms(group: Group) -> int | None:
    """When to come back with a `Tick`, on the monotonic clock; earlier is harmless. None: nothing will be due."""
    return group.due_ms


def is_over(group: Group) -> bool:
    """Whether nothing can come of the group any more, and it may be forgotten."""
    return group.state is GroupState.DEAD and not group.writing


def _written(turn: Turn, event: Written) -> None:
    writing = _answered(turn, event)
    if writing is None:
        return
    turn.writing = tuple(other for other in turn.writing if other is not writing)
    match writing.purpose:
        case Assigning() as purpose:
            sync_group.written(turn, writing, purpose, event.error)
        case Replacing() as purpose:
            static_members.written(turn, writing, purpose, event.error)
        case Deleting() as purpose:
            leave_group.written(turn, purpose, event.error)
        case Emptying():
            # Nobody waits for it. If it failed, a restart finds the members of before, whose sessions end soon.
            pass
        case _:
            assert_never(writing.purpose)


def _answered(turn: Turn, event: Written) -> Writing | None:
    for writing in turn.writing:
        if event.number == writing.number or (not event.number and event.generation_id == writing.generation_id):
            return writing
    return None


def check(group: Group) -> None:
    """Assert what must hold of a group between any two steps."""
    members = group.members
    assert all(member_id == member.member_id for member_id, member in members.items())
    assert (group.leader_id is None) if not members else (group.leader_id in members)
    assert not (members.keys() & group.pending.keys())
    static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
    assert group.static_ids == static
    assert len(static) == sum(member.is_static for member in members.values())
    support: dict[str, int] = {}
    for member in members.values():
        protocol_selection.count(support, member.protocols, 1)
    assert group.support == support
    assert not members or len(members) in support.values(), "no protocol is common to all"
    _check_state(group)
    _check_deadlines(group)


def _check_state(group: Group) -> None:
    members = group.members.values()
    replaced = {w.purpose.member_id for w in group.writing if isinstance(w.purpose, Replacing)}
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        assert not members
    if group.state is GroupState.EMPTY:
        assert group.protocol_name is None
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert members
        assert group.support[group.protocol_name or ""] == len(members)
        joining = {member.member_id for member in members if member.joining is not None}
        assert joining <= (replaced if group.state is GroupState.STABLE else set())
        assert not any(member.is_new for member in members)
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert not any(member.syncing is not None for member in members)
    assert (group.rebalance_ends_ms is not None) == (group.state is GroupState.PREPARING_REBALANCE)
    assert group.initial is None or group.state is GroupState.PREPARING_REBALANCE
    assert (group.sync_ends_ms is not None) == any(member.owes_sync for member in members)


def _check_deadlines(group: Group) -> None:
    if group.grace is not None:
        assert group.due_ms is not None
        return
    deadlines = [*group.pending.values(), group.rebalance_ends_ms, group.sync_ends_ms]
    deadlines += [member.expires_ms for member in group.members.values()]
    for deadline in deadlines:
        assert deadline is None or (group.due_ms is not None and group.due_ms <= deadline)
