"""JoinGroup: which members may join, and what a join starts.

A new member has no id. Current clients are given one and join with it in a second request (KIP-394), so that a client
that never receives the answer leaves only an id behind, which expires after the session timeout of its request. A group
has at most as many such ids as it may have members.
"""

from __future__ import annotations

from sordini.broker.groups.machine import rebalance, static_members
from sordini.broker.groups.machine.events import Join, JoinAnswer
from sordini.broker.groups.machine.member_validation import member_error
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, rejoin_cause
from sordini.broker.groups.machine.state import GroupState, Member
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode


def join(transition: GroupTransition, event: Join) -> None:
    limits = transition.limits
    if not limits.session_timeout_ms_min <= event.session_timeout_ms <= limits.session_timeout_ms_max:
        _reject(transition, event, ErrorCode.INVALID_SESSION_TIMEOUT)
    elif not _accepts_member(transition, event):
        if event.member_id in transition.members:
            transition.rebalance_caused(RebalanceCause.GROUP_TOO_LARGE, transition.members[event.member_id])
        transition.remove_member(event.member_id, fenced="group is full")
        transition.reply(event.caller, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif transition.state is GroupState.DEAD:
        _reject(transition, event, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not transition.supports_protocols(event.protocol_type, event.protocols):
        _reject(transition, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not event.member_id:
        _join_new_member(transition, event)
    elif event.member_id in transition.pending_joins and event.group_instance_id is None:
        _add_member(transition, event, event.member_id)
    else:
        _join_known_member(transition, event)
    rebalance.maybe_complete(transition)


def _reject(transition: GroupTransition, event: Join, error: ErrorCode) -> None:
    transition.reply(event.caller, JoinAnswer(error, member_id=event.member_id))


def _accepts_member(transition: GroupTransition, event: Join) -> bool:
    """Whether the group's size allows it.

    While a rebalance is prepared, only members that have joined are counted: a group that is larger than allowed (the
    limit was lowered) loses the last members to join.
    """
    members_max = transition.limits.members_max
    if not event.member_id and event.requires_known_member_id and len(transition.pending_joins) >= members_max:
        return False
    member = transition.members.get(event.member_id)
    match transition.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or transition.joined_count < members_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member is not None or len(transition.members) < members_max


def _join_new_member(transition: GroupTransition, event: Join) -> None:
    if event.group_instance_id is not None:
        if event.group_instance_id in transition.static_member_ids:
            static_members.replace_static_member(transition, event, event.group_instance_id)
        else:
            _add_member(transition, event, event.new_member_id)
    elif event.requires_known_member_id:
        expires_ms = transition.schedule(transition.now_ms + event.session_timeout_ms)
        transition.pending_joins[event.new_member_id] = expires_ms
        transition.reply(event.caller, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id=event.new_member_id))
    else:
        _add_member(transition, event, event.new_member_id)


def _add_member(transition: GroupTransition, event: Join, member_id: str) -> None:
    # Only the first generation is delayed for more members; later ones start as soon as all members have joined.
    if transition.initial_delay is not None and transition.generation_id == 0:
        transition.initial_delay = transition.initial_delay._replace(new_member_joined=True)
    member = Member(
        member_id,
        event.group_instance_id,
        event.client_id,
        event.client_host,
        event.rebalance_timeout_ms,
        event.session_timeout_ms,
        event.protocols,
        awaiting_join=event.caller,
        is_new=True,
    )
    transition.add_member(transition.restart_session(member), event.protocol_type)
    transition.rebalance_caused(RebalanceCause.MEMBER_JOINED, member, event.reason)
    rebalance.prepare(transition)


def _join_known_member(transition: GroupTransition, event: Join) -> None:
    error = member_error(transition.members, transition.static_member_ids, event.member_id, event.group_instance_id)
    if error is not None:
        _reject(transition, event, error)
        return
    member = transition.members[event.member_id]
    if _repeats_join(transition, member, event):
        transition.update_member(transition.restart_session(member))
        transition.reply(event.caller, rebalance.join_answer(transition, member.member_id))
        return
    _add_cause(transition, member, event)
    changed = transition.update_protocols(member, event.protocols)
    rebalance.set_awaiting_join(transition, _with_timeouts(changed, event), event.caller)
    rebalance.prepare(transition)


def _add_cause(transition: GroupTransition, member: Member, event: Join) -> None:
    is_leader = member.member_id == transition.leader_id
    cause, topics = rejoin_cause(member, event.protocols, event.protocol_type, is_leader=is_leader)
    # While a rebalance is prepared every member joins again: only another subscription is a cause of its own.
    is_own_cause = transition.state is not GroupState.PREPARING_REBALANCE
    if is_own_cause or cause is RebalanceCause.SUBSCRIPTION_CHANGED:
        transition.rebalance_caused(cause, member, topics or event.reason)


def _repeats_join(transition: GroupTransition, member: Member, event: Join) -> bool:
    """Whether the member only missed its answer, so that the current generation is sent again.

    A leader that joins while the group is stable requests a rebalance: topics may have changed.
    """
    if member.protocols != event.protocols:
        return False
    if transition.state is GroupState.STABLE:
        return member.member_id != transition.leader_id
    return transition.state is GroupState.COMPLETING_REBALANCE


def _with_timeouts(member: Member, event: Join) -> Member:
    return member._replace(rebalance_timeout_ms=event.rebalance_timeout_ms, session_timeout_ms=event.session_timeout_ms)
