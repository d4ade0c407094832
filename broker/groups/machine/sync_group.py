"""SyncGroup: the leader sends the assignment, it is written, and then each member is sent its own."""

from __future__ import annotations

from typing import assert_never

from sordini.broker.groups.machine import rebalance
from sordini.broker.groups.machine.events import Sync, SyncAnswer
from sordini.broker.groups.machine.member_validation import member_error
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.state import AssignmentWrite, GroupState, Member, PendingWrite
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode


def sync(transition: GroupTransition, event: Sync) -> None:
    error = _sync_error(transition, event)
    if error is not None:
        transition.reply(event.caller, SyncAnswer(error))
        return
    member = transition.members[event.member_id]
    match transition.state:
        case GroupState.PREPARING_REBALANCE:
            transition.reply(event.caller, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        case GroupState.COMPLETING_REBALANCE:
            _await_assignment(transition, member, event)
        case GroupState.STABLE:
            transition.update_member(transition.restart_session(member._replace(is_pending_sync=False)))
            transition.reply(event.caller, _assignment(transition, member))
        case GroupState.EMPTY | GroupState.DEAD:
            raise AssertionError("a sync of a group without members is refused above")
        case _:
            assert_never(transition.state)
    if not any(member.is_pending_sync for member in transition.members.values()):
        transition.sync_deadline_ms = None


def _sync_error(transition: GroupTransition, event: Sync) -> ErrorCode | None:
    if transition.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = member_error(transition.members, transition.static_member_ids, event.member_id, event.group_instance_id)
    if error is not None:
        return error
    if event.generation_id != transition.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    has_type = event.protocol_type in (None, transition.protocol_type)
    has_protocol = event.protocol_name in (None, transition.protocol_name)
    return None if has_type and has_protocol else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _await_assignment(transition: GroupTransition, member: Member, event: Sync) -> None:
    if member.awaiting_sync is not None:
        # The client has sent another SyncGroup.
        transition.reply(member.awaiting_sync, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    transition.update_member(member._replace(awaiting_sync=event.caller, is_pending_sync=False))
    if member.member_id == transition.leader_id and not _is_assignment_pending(transition):
        assignments = {member_id: event.assignments.get(member_id, b"") for member_id in transition.members}
        transition.write_group(AssignmentWrite(assignments))


def _is_assignment_pending(transition: GroupTransition) -> bool:
    return any(
        isinstance(write.purpose, AssignmentWrite) and write.generation_id == transition.generation_id
        for write in transition.pending_writes
    )


def assignment_written(
    transition: GroupTransition, write: PendingWrite, purpose: AssignmentWrite, error: ErrorCode | None
) -> None:
    """The assignment was written, or the write failed: then the members have to join again."""
    if transition.state is not GroupState.COMPLETING_REBALANCE or transition.generation_id != write.generation_id:
        return
    if error is not None:
        rebalance.fail_pending_syncs(transition, error)
        transition.rebalance_caused(RebalanceCause.ASSIGNMENT_NOT_WRITTEN, None, error.name)
        rebalance.prepare(transition)
        rebalance.maybe_complete(transition)
        return
    transition.transition_to(GroupState.STABLE)
    for member in list(transition.members.values()):
        assigned = member._replace(assignment=purpose.assignments[member.member_id])
        if member.awaiting_sync is not None:
            transition.reply(member.awaiting_sync, _assignment(transition, assigned))
            assigned = transition.restart_session(assigned._replace(awaiting_sync=None))
        transition.update_member(assigned)
    transition.rebalance_completed()


def _assignment(transition: GroupTransition, member: Member) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, transition.protocol_type, transition.protocol_name, member.assignment)
