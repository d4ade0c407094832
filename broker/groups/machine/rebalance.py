"""From one generation to the next: PREPARING_REBALANCE, in which members join, and the start of the new generation.

A rebalance completes when all members have joined and no id that was given out is missing; or at its deadline, which
removes the members that have not joined. Static members stay until their session expires (KIP-345; `static_members.py`
has their next ids). A group that was empty waits for its initial delay, however many have joined, and longer while more
members join.
"""

from __future__ import annotations

from sordini.broker.groups.machine import protocol_selection
from sordini.broker.groups.machine.events import JoinAnswer, JoinedMember, SyncAnswer
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.state import Caller, EmptyGroupWrite, GroupState, InitialDelay, Member
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode

JOIN_EXTENSION_MS_MIN = 1_000
"""The shortest extension of a rebalance that no member has joined in time: a member may have a timeout of 0."""


def prepare(transition: GroupTransition) -> None:
    """Start a rebalance, unless one is being prepared."""
    if transition.state is GroupState.PREPARING_REBALANCE:
        return
    if transition.state is GroupState.COMPLETING_REBALANCE:
        fail_pending_syncs(transition, ErrorCode.REBALANCE_IN_PROGRESS)
    cancel_sync_deadline(transition)
    wait_ms = transition.rebalance_timeout_ms
    if transition.state is GroupState.EMPTY:
        delay_ms = transition.limits.initial_rebalance_delay_ms
        transition.initial_delay = InitialDelay(max(wait_ms - delay_ms, 0))
        wait_ms = delay_ms
    transition.transition_to(GroupState.PREPARING_REBALANCE)
    _schedule_completion(transition, wait_ms)


def _schedule_completion(transition: GroupTransition, wait_ms: int) -> None:
    transition.rebalance_deadline_ms = transition.schedule(transition.now_ms + wait_ms)
    transition.completes_at_once = wait_ms == 0


def maybe_complete(transition: GroupTransition) -> None:
    """Complete the rebalance if all members have joined or there is no delay. Called after every change of members.

    Only `member_sessions.tick` completes a rebalance at its deadline: it takes stalls of the loop into account.
    """
    if transition.state is not GroupState.PREPARING_REBALANCE:
        return
    is_waiting = transition.initial_delay is not None or transition.pending_joins
    all_joined = not is_waiting and transition.joined_count == len(transition.members)
    if all_joined or transition.completes_at_once:
        complete(transition)


def complete(transition: GroupTransition) -> None:
    """All members have joined, or the deadline has passed."""
    initial_delay = transition.initial_delay
    if initial_delay is not None and initial_delay.new_member_joined:
        delay_ms = min(transition.limits.initial_rebalance_delay_ms, initial_delay.remaining_ms)
        transition.initial_delay = InitialDelay(initial_delay.remaining_ms - delay_ms)
        _schedule_completion(transition, delay_ms)
        maybe_complete(transition)
        return
    transition.initial_delay = None
    for member in list(transition.members.values()):
        if member.awaiting_join is None and not member.is_static:
            limit = f"no JoinGroup within {transition.rebalance_timeout_ms} ms"
            transition.rebalance_caused(RebalanceCause.REBALANCE_TIMEOUT, member, limit)
            transition.remove_member(member.member_id, fenced="rebalance timeout")
    if not transition.members:
        _complete_empty(transition)
    elif _elect_joined_leader(transition):
        _start_generation(transition)
    else:
        _schedule_completion(transition, max(transition.rebalance_timeout_ms, JOIN_EXTENSION_MS_MIN))


def _elect_joined_leader(transition: GroupTransition) -> bool:
    """Make a member that has joined the leader; False if no member has joined."""
    if transition.leader_id is None or transition.members[transition.leader_id].awaiting_join is None:
        joined = (member_id for member_id, member in transition.members.items() if member.awaiting_join is not None)
        transition.leader_id = next(joined, transition.leader_id)
    return transition.leader_id is not None and transition.members[transition.leader_id].awaiting_join is not None


def _complete_empty(transition: GroupTransition) -> None:
    transition.generation_id += 1
    transition.protocol_name = None
    transition.rebalance_deadline_ms = None
    transition.transition_to(GroupState.EMPTY)
    transition.write_group(EmptyGroupWrite())
    transition.rebalance_completed()


def _start_generation(transition: GroupTransition) -> None:
    transition.generation_id += 1
    transition.protocol_name = protocol_selection.select(transition.members.values(), transition.protocol_support)
    transition.rebalance_deadline_ms = None
    transition.transition_to(GroupState.COMPLETING_REBALANCE)
    for member in list(transition.members.values()):
        if member.awaiting_join is not None:
            transition.reply(member.awaiting_join, join_answer(transition, member.member_id))
        joined = member._replace(awaiting_join=None, is_new=False, is_pending_sync=True)
        transition.update_member(transition.restart_session(joined))
    transition.sync_deadline_ms = transition.schedule(transition.now_ms + transition.rebalance_timeout_ms)


def join_answer(transition: GroupTransition, member_id: str, *, skip_assignment: bool = False) -> JoinAnswer:
    """The current generation, for one member; the leader's answer lists all members."""
    return JoinAnswer(
        ErrorCode.NONE,
        transition.generation_id,
        transition.protocol_type,
        transition.protocol_name,
        transition.leader_id or "",
        skip_assignment,
        member_id,
        _joined_members(transition) if member_id == transition.leader_id else (),
    )


def _joined_members(transition: GroupTransition) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(member.member_id, member.group_instance_id, member.metadata(transition.protocol_name))
        for member in transition.members.values()
    )


def fail_pending_syncs(transition: GroupTransition, error: ErrorCode) -> None:
    """The assignment failed: answer pending syncs with the error, and clear all assignments."""
    for member in list(transition.members.values()):
        unassigned = member._replace(assignment=b"", awaiting_sync=None)
        if member.awaiting_sync is not None:
            transition.reply(member.awaiting_sync, SyncAnswer(error))
            unassigned = transition.restart_session(unassigned)
        transition.update_member(unassigned)


def cancel_sync_deadline(transition: GroupTransition) -> None:
    transition.sync_deadline_ms = None
    for member in list(transition.members.values()):
        if member.is_pending_sync:
            transition.update_member(member._replace(is_pending_sync=False))


def set_awaiting_join(transition: GroupTransition, member: Member, caller: Caller) -> None:
    """Let a member's join wait. An earlier join of the member is answered: its client has sent another."""
    if member.awaiting_join is not None:
        transition.reply(member.awaiting_join, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
    transition.update_member(member._replace(awaiting_join=caller))
