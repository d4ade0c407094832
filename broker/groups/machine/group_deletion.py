"""The end of a group on this broker: deleted, removed with its last offset, or unloaded with the leadership."""

from __future__ import annotations

from sordini.broker.groups.machine.events import DeleteGroup, GroupAnswer
from sordini.broker.groups.machine.state import Caller, Group, GroupState, TombstoneWrite
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode

DELETE_ERRORS = {
    GroupState.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
    GroupState.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
}


def delete(transition: GroupTransition, event: DeleteGroup) -> None:
    error = DELETE_ERRORS.get(transition.state)
    if error is not None:
        transition.reply(event.caller, GroupAnswer(error))
    elif _transition_to_dead(transition, event.caller):
        transition.reply(event.caller, GroupAnswer(ErrorCode.NONE))


def last_offset_removed(transition: GroupTransition) -> None:
    """An empty group is removed with its last offset, unless a member is about to join."""
    if transition.state is GroupState.EMPTY and not transition.pending_joins:
        _transition_to_dead(transition, None)


def _transition_to_dead(transition: GroupTransition, caller: Caller | None) -> bool:
    """End the group; true if that needs no tombstone, since a group of generation 0 has no record."""
    transition.transition_to(GroupState.DEAD)
    transition.pending_joins.clear()
    if transition.generation_id == 0:
        return True
    transition.write_group(TombstoneWrite(caller))
    return False


def tombstone_written(transition: GroupTransition, purpose: TombstoneWrite, error: ErrorCode | None) -> None:
    """The tombstone was written, or the write failed: then the group is empty again."""
    if error is not None and transition.state is GroupState.DEAD:
        transition.transition_to(GroupState.EMPTY)
    if purpose.caller is not None:
        transition.reply(purpose.caller, GroupAnswer(error or ErrorCode.NONE))


def deletion_callers(group: Group | None, number: int | None = None) -> list[Caller]:
    """Who waits for the tombstones that a group has written, or for that of one write."""
    return [
        write.purpose.caller
        for write in (() if group is None else group.pending_writes)
        if isinstance(write.purpose, TombstoneWrite)
        and write.purpose.caller is not None
        and number in (None, write.number)
    ]


def unload(transition: GroupTransition) -> None:
    """The broker is no longer the coordinator: pending requests are answered NOT_COORDINATOR."""
    if transition.state is not GroupState.DEAD:
        transition.transition_to(GroupState.DEAD)
    for member in list(transition.members.values()):
        transition.fail_pending_requests(member, ErrorCode.NOT_COORDINATOR, answered_id=member.member_id)
        transition.update_member(member._replace(awaiting_join=None, awaiting_sync=None))
    for member_id in list(transition.members):
        transition.remove_member(member_id)
    for write in transition.pending_writes:
        if isinstance(write.purpose, TombstoneWrite) and write.purpose.caller is not None:
            transition.reply(write.purpose.caller, GroupAnswer(ErrorCode.NOT_COORDINATOR))
    transition.pending_joins.clear()
    transition.pending_writes = ()
    transition.initial_delay = transition.grace = None
    transition.rebalance_deadline_ms = transition.sync_deadline_ms = transition.due_ms = None
