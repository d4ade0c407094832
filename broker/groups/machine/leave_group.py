"""LeaveGroup: members that leave, or are removed by an administrator."""

from __future__ import annotations

from sordini.broker.groups.machine import rebalance
from sordini.broker.groups.machine.events import Leave, LeaveAnswer, LeavingMember
from sordini.broker.groups.machine.member_validation import member_error
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.state import GroupState, Member
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode


def leave(transition: GroupTransition, event: Leave) -> None:
    """Remove members, one after the other; each removal may complete a rebalance or start one."""
    if transition.state is GroupState.DEAD:
        errors = (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * len(event.members)
    else:
        errors = tuple(_leave(transition, event, leaving) for leaving in event.members)
    transition.reply(event.caller, LeaveAnswer(errors))


def _leave(transition: GroupTransition, event: Leave, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        # An administrator removes a static member by its instance id alone.
        member_id = transition.static_member_ids.get(leaving.group_instance_id or "", "")
    elif member_id in transition.pending_joins:
        transition.remove_member(member_id)
        rebalance.maybe_complete(transition)
        return ErrorCode.NONE
    error = member_error(transition.members, transition.static_member_ids, member_id, leaving.group_instance_id)
    if error is not None:
        return error
    member = transition.members[member_id]
    transition.rebalance_caused(_leave_cause(event, leaving, member), member, leaving.reason)
    transition.remove_member(member_id)
    rebalance_without(transition)
    return ErrorCode.NONE


def _leave_cause(event: Leave, leaving: LeavingMember, member: Member) -> RebalanceCause:
    """A member leaves alone, by its id, from its own client; an administrator names many, or an instance id only."""
    is_other_client = event.client_id is not None and event.client_id != member.client_id
    if is_other_client or not leaving.member_id or len(event.members) > 1:
        return RebalanceCause.REMOVED_BY_ADMIN
    return RebalanceCause.MEMBER_LEFT


def rebalance_without(transition: GroupTransition) -> None:
    """Members were removed: their partitions are assigned to the others."""
    rebalance.prepare(transition)
    rebalance.maybe_complete(transition)
