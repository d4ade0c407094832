"""The ends of things: members that leave, and groups that are deleted, forgotten or handed over."""

from __future__ import annotations

from sordini.broker.groups.machine import rebalance
from sordini.broker.groups.machine.events import Answer, Delete, Leave, LeaveAnswer, Leaving
from sordini.broker.groups.machine.member_validation import refusal
from sordini.broker.groups.machine.state import Caller, Deleting, GroupState
from sordini.broker.groups.machine.transition import Turn
from sordini.protocol.errors import ErrorCode

DELETE_REFUSALS = {
    GroupState.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
    GroupState.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
}


def leave(turn: Turn, event: Leave) -> None:
    """Let members go, one after the other; each may end a rebalance or start one."""
    if turn.state is GroupState.DEAD:
        errors = (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * len(event.members)
    else:
        errors = tuple(_leave(turn, leaving) for leaving in event.members)
    turn.reply(event.caller, LeaveAnswer(errors))


def _leave(turn: Turn, leaving: Leaving) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        # An administrator removes a static member without knowing what it is called now.
        member_id = turn.static_ids.get(leaving.group_instance_id or "", "")
    elif member_id in turn.pending:
        turn.remove(member_id)
        rebalance.settle(turn)
        return ErrorCode.NONE
    error = refusal(turn.members, turn.static_ids, member_id, leaving.group_instance_id)
    if error is not None:
        return error
    turn.remove(member_id)
    went(turn)
    return ErrorCode.NONE


def went(turn: Turn) -> None:
    """Members are gone: their share has to be given to the others."""
    rebalance.begin(turn)
    rebalance.settle(turn)


def delete(turn: Turn, event: Delete) -> None:
    error = DELETE_REFUSALS.get(turn.state)
    if error is not None:
        turn.reply(event.caller, Answer(error))
    elif _forget(turn, event.caller):
        turn.reply(event.caller, Answer(ErrorCode.NONE))


def offsets_gone(turn: Turn) -> None:
    """Nothing is left to remember; unless somebody is about to join."""
    if turn.state is GroupState.EMPTY and not turn.pending:
        _forget(turn, None)


def _forget(turn: Turn, caller: Caller | None) -> bool:
    """End the group; whether that is done already, because there was never a record of it (its generation is 0)."""
    turn.become(GroupState.DEAD)
    turn.pending.clear()
    if turn.generation_id == 0:
        return True
    turn.write(Deleting(caller))
    return False


def written(turn: Turn, purpose: Deleting, error: ErrorCode | None) -> None:
    """The tombstone is written, or could not be: then the group is still there."""
    if error is not None and turn.state is GroupState.DEAD:
        turn.become(GroupState.EMPTY)
    if purpose.caller is not None:
        turn.reply(purpose.caller, Answer(error or ErrorCode.NONE))


def unload(turn: Turn) -> None:
    """Give up on the group, and tell all who wait to look elsewhere."""
    if turn.state is not GroupState.DEAD:
        turn.become(GroupState.DEAD)
    for member in list(turn.members.values()):
        turn.cut_off(member, ErrorCode.NOT_COORDINATOR, told_id=member.member_id)
        turn.put(member._replace(joining=None, syncing=None))
    for member_id in list(turn.members):
        turn.remove(member_id)
    for writing in turn.writing:
        if isinstance(writing.purpose, Deleting) and writing.purpose.caller is not None:
            turn.reply(writing.purpose.caller, Answer(ErrorCode.NOT_COORDINATOR))
    turn.pending.clear()
    turn.writing = ()
    turn.initial = turn.rebalance_ends_ms = turn.sync_ends_ms = turn.grace = turn.due_ms = None
