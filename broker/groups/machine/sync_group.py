"""SyncGroup: the leader brings the assignment, it is written down, and then everybody is given theirs."""

from __future__ import annotations

from typing import assert_never

from sordini.broker.groups.machine import rebalance
from sordini.broker.groups.machine.events import Sync, SyncAnswer
from sordini.broker.groups.machine.member_validation import refusal
from sordini.broker.groups.machine.state import Assigning, GroupState, Member, Writing
from sordini.broker.groups.machine.transition import Turn
from sordini.protocol.errors import ErrorCode


def sync(turn: Turn, event: Sync) -> None:
    error = _refusal(turn, event)
    if error is not None:
        turn.reply(event.caller, SyncAnswer(error))
        return
    member = turn.members[event.member_id]
    match turn.state:
        case GroupState.PREPARING_REBALANCE:
            turn.reply(event.caller, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        case GroupState.COMPLETING_REBALANCE:
            _await(turn, member, event)
        case GroupState.STABLE:
            turn.put(turn.heard(member._replace(owes_sync=False)))
            turn.reply(event.caller, _assignment(turn, member))
        case GroupState.EMPTY | GroupState.DEAD:
            raise AssertionError("a group without members has refused it")
        case _:
            assert_never(turn.state)
    if not any(member.owes_sync for member in turn.members.values()):
        turn.sync_ends_ms = None


def _refusal(turn: Turn, event: Sync) -> ErrorCode | None:
    if turn.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = refusal(turn.members, turn.static_ids, event.member_id, event.group_instance_id)
    if error is not None:
        return error
    if event.generation_id != turn.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if event.protocol_type not in (None, turn.protocol_type) or event.protocol_name not in (None, turn.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _await(turn: Turn, member: Member, event: Sync) -> None:
    if member.syncing is not None:
        turn.reply(member.syncing, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))  # Its client has asked again.
    turn.put(member._replace(syncing=event.caller, owes_sync=False))
    if member.member_id == turn.leader_id and not _is_assigning(turn):
        turn.write(Assigning({member_id: event.assignments.get(member_id, b"") for member_id in turn.members}))


def _is_assigning(turn: Turn) -> bool:
    return any(
        isinstance(writing.purpose, Assigning) and writing.generation_id == turn.generation_id
        for writing in turn.writing
    )


def written(turn: Turn, writing: Writing, purpose: Assigning, error: ErrorCode | None) -> None:
    """The assignment is written down, or could not be: then the members have to join again."""
    if turn.state is not GroupState.COMPLETING_REBALANCE or turn.generation_id != writing.generation_id:
        return
    if error is not None:
        rebalance.answer_syncs(turn, error)
        rebalance.begin(turn)
        rebalance.settle(turn)
        return
    turn.become(GroupState.STABLE)
    for member in list(turn.members.values()):
        assigned = member._replace(assignment=purpose.assignments[member.member_id])
        if member.syncing is not None:
            turn.reply(member.syncing, _assignment(turn, assigned))
            assigned = turn.heard(assigned._replace(syncing=None))
        turn.put(assigned)


def _assignment(turn: Turn, member: Member) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, turn.protocol_type, turn.protocol_name, member.assignment)
