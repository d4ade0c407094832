"""The classic group protocol: the transitions of a group, event by event, as Apache Kafka's coordinator decides them.

Pure: `step(group, event, now, limits)` returns the group after the event, and actions in order. Each part is a module:
`join_group` (and `static_members`), `rebalance`, `sync_group`, `leave_group`, `group_deletion`,
`member_sessions`. Eager and cooperative rebalances are the same to the coordinator: the difference is in the clients.

    EMPTY -- a member joins --> PREPARING -- all joined, or deadline --> COMPLETING -- assignment written --> STABLE
      ^                           |   ^                                         |                                 |
      +---- no members left ------+   +---- a member joins, leaves or expires --+---------------------------------+

Invariants, held after every step (`check_invariants` asserts them):
  - every request is answered exactly once, or is pending in exactly one field;
  - the generation never decreases, and each starts with a protocol that all members support;
  - there is a leader exactly when there are members, and it is one of them;
  - a generation has no pending joins, except of static members whose records are not yet committed; syncs are pending
    only in a generation that is completing;
  - static ids, protocol support and the next deadline agree with the members;
  - what is answered as final (an assignment, a static member's new id, a deletion) is written first.
"""

from __future__ import annotations

from typing import assert_never

from sordini.broker.groups.machine import (
    group_deletion,
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
    DeleteGroup,
    Event,
    GroupLimits,
    Heartbeat,
    Join,
    LastOffsetRemoved,
    Leave,
    Now,
    Sync,
    Tick,
    Unload,
    ValidateOffsetCommit,
    WriteCompleted,
)
from sordini.broker.groups.machine.state import (
    AssignmentWrite,
    EmptyGroupWrite,
    Group,
    GroupState,
    GroupValue,
    PendingWrite,
    ReplacementWrite,
    TombstoneWrite,
)
from sordini.broker.groups.machine.transition import GroupTransition


def step(group: Group, event: Event, now: Now, limits: GroupLimits) -> tuple[Group, list[Action]]:
    """The group after one event, and the actions to carry out."""
    if isinstance(event, Heartbeat):
        return member_sessions.heartbeat(group, event, now)
    if isinstance(event, ValidateOffsetCommit):
        return member_sessions.validate_offset_commit(group, event, now)
    transition = GroupTransition(group, now, limits)
    match event:
        case Join():
            join_group.join(transition, event)
        case Sync():
            sync_group.sync(transition, event)
        case Leave():
            leave_group.leave(transition, event)
        case Tick(late_ms):
            member_sessions.tick(transition, late_ms)
        case WriteCompleted():
            _write_completed(transition, event)
        case DeleteGroup():
            group_deletion.delete(transition, event)
        case LastOffsetRemoved():
            group_deletion.last_offset_removed(transition)
        case Unload():
            group_deletion.unload(transition)
        case _:
            assert_never(event)
    return transition.finish()


def restored_group(
    group_id: str, value: GroupValue, now: Now, limits: GroupLimits, *, rebalances: bool = False
) -> Group:
    """The group of a record. It starts with a rebalance if it `rebalances`, or is larger than a lowered limit."""
    group = persistent_state.restore_group(group_id, value, now)
    if len(group.members) <= limits.members_max and not rebalances:
        return group
    transition = GroupTransition(group, now, limits)
    rebalance.prepare(transition)
    shrinking, actions = transition.finish()  # `ShardHistories.restored` has its cause.
    assert not actions, "a restored group has no pending requests"
    return shrinking


def next_due_ms(group: Group) -> int | None:
    """When the next `Tick` is due, on the monotonic clock; an earlier one is harmless. None: never."""
    return group.due_ms


def is_finished(group: Group) -> bool:
    """Whether no event can change the group any more, so that the shell may drop it."""
    return group.state is GroupState.DEAD and not group.pending_writes


def _write_completed(transition: GroupTransition, event: WriteCompleted) -> None:
    write = _completed_write(transition, event)
    if write is None:
        return
    transition.pending_writes = tuple(other for other in transition.pending_writes if other is not write)
    match write.purpose:
        case AssignmentWrite() as purpose:
            sync_group.assignment_written(transition, write, purpose, event.error)
        case ReplacementWrite() as purpose:
            static_members.replacement_written(transition, write, purpose, event.error)
        case TombstoneWrite() as purpose:
            group_deletion.tombstone_written(transition, purpose, event.error)
        case EmptyGroupWrite():
            # No request waits for it. If it failed, a restart restores the previous members, whose sessions expire.
            pass
        case _:
            assert_never(write.purpose)


def _completed_write(transition: GroupTransition, event: WriteCompleted) -> PendingWrite | None:
    for write in transition.pending_writes:
        if event.number == write.number or (not event.number and event.generation_id == write.generation_id):
            return write
    return None


def check_invariants(group: Group) -> None:
    """Assert the invariants of a group between any two steps."""
    members = group.members
    assert all(member_id == member.member_id for member_id, member in members.items())
    assert (group.leader_id is None) if not members else (group.leader_id in members)
    assert not (members.keys() & group.pending_joins.keys())
    static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
    assert group.static_member_ids == static
    assert len(static) == sum(member.is_static for member in members.values())
    support: dict[str, int] = {}
    for member in members.values():
        protocol_selection.count(support, member.protocols, 1)
    assert group.protocol_support == support
    assert not members or len(members) in support.values(), "no protocol is common to all"
    _check_state(group)
    _check_deadlines(group)


def _check_state(group: Group) -> None:
    members = group.members.values()
    replaced = {w.purpose.member_id for w in group.pending_writes if isinstance(w.purpose, ReplacementWrite)}
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        assert not members
    if group.state is GroupState.EMPTY:
        assert group.protocol_name is None
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert members
        assert group.protocol_support[group.protocol_name or ""] == len(members)
        joining = {member.member_id for member in members if member.awaiting_join is not None}
        assert joining <= (replaced if group.state is GroupState.STABLE else set())
        assert not any(member.is_new for member in members)
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert not any(member.awaiting_sync is not None for member in members)
    assert (group.rebalance_deadline_ms is not None) == (group.state is GroupState.PREPARING_REBALANCE)
    assert group.initial_delay is None or group.state is GroupState.PREPARING_REBALANCE
    assert (group.sync_deadline_ms is not None) == any(member.is_pending_sync for member in members)


def _check_deadlines(group: Group) -> None:
    if group.grace is not None:
        assert group.due_ms is not None
        return
    deadlines = [*group.pending_joins.values(), group.rebalance_deadline_ms, group.sync_deadline_ms]
    deadlines += [member.expires_ms for member in group.members.values()]
    for deadline in deadlines:
        assert deadline is None or (group.due_ms is not None and group.due_ms <= deadline)
