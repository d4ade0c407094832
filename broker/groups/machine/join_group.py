"""JoinGroup: who may join, and what joining starts.

A newcomer has no id. Clients of today are given one and join with that in a second request (KIP-394), so that one who
never hears the answer leaves nothing but an id behind, which lapses with the session timeout it asked for. No more ids
are out at a time than the group may have members.
"""

from __future__ import annotations

from sordini.broker.groups.machine import rebalance, static_members
from sordini.broker.groups.machine.events import Join, JoinAnswer
from sordini.broker.groups.machine.member_validation import refusal
from sordini.broker.groups.machine.state import GroupState, Member
from sordini.broker.groups.machine.transition import Turn
from sordini.protocol.errors import ErrorCode


def join(turn: Turn, event: Join) -> None:
    limits = turn.limits
    if not limits.session_timeout_ms_min <= event.session_timeout_ms <= limits.session_timeout_ms_max:
        _refuse(turn, event, ErrorCode.INVALID_SESSION_TIMEOUT)
    elif not _has_room(turn, event):
        turn.remove(event.member_id)
        turn.reply(event.caller, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif turn.state is GroupState.DEAD:
        _refuse(turn, event, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    elif not turn.supports(event.protocol_type, event.protocols):
        _refuse(turn, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif not event.member_id:
        _newcomer(turn, event)
    elif event.member_id in turn.pending and event.group_instance_id is None:
        _add(turn, event, event.member_id)
    else:
        _known(turn, event)
    rebalance.settle(turn)


def _refuse(turn: Turn, event: Join, error: ErrorCode) -> None:
    turn.reply(event.caller, JoinAnswer(error, member_id=event.member_id))


def _has_room(turn: Turn, event: Join) -> bool:
    """Whether the group's size allows it.

    While a rebalance gathers members those count that have joined: a group that was larger than is allowed now (the
    bound was lowered) loses the last to join.
    """
    members_max = turn.limits.members_max
    if not event.member_id and event.needs_known_id and len(turn.pending) >= members_max:
        return False
    member = turn.members.get(event.member_id)
    match turn.state:
        case GroupState.EMPTY | GroupState.DEAD:
            return True
        case GroupState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or turn.joined < members_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member is not None or len(turn.members) < members_max


def _newcomer(turn: Turn, event: Join) -> None:
    if event.group_instance_id is not None:
        if event.group_instance_id in turn.static_ids:
            static_members.replace_by(turn, event, event.group_instance_id)
        else:
            _add(turn, event, event.drawn_member_id)
    elif event.needs_known_id:
        turn.pending[event.drawn_member_id] = turn.expect(turn.now_ms + event.session_timeout_ms)
        turn.reply(event.caller, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id=event.drawn_member_id))
    else:
        _add(turn, event, event.drawn_member_id)


def _add(turn: Turn, event: Join, member_id: str) -> None:
    # Only the very first generation is put off for newcomers; later ones begin as soon as all are there.
    if turn.initial is not None and turn.generation_id == 0:
        turn.initial = turn.initial._replace(newcomer_came=True)
    member = Member(
        member_id,
        event.group_instance_id,
        event.client_id,
        event.client_host,
        event.rebalance_timeout_ms,
        event.session_timeout_ms,
        event.protocols,
        joining=event.caller,
        is_new=True,
    )
    turn.add(turn.heard(member), event.protocol_type)
    rebalance.begin(turn)


def _known(turn: Turn, event: Join) -> None:
    error = refusal(turn.members, turn.static_ids, event.member_id, event.group_instance_id)
    if error is not None:
        _refuse(turn, event, error)
        return
    member = turn.members[event.member_id]
    if _changes_nothing(turn, member, event):
        turn.put(turn.heard(member))
        turn.reply(event.caller, rebalance.answer(turn, member.member_id))
        return
    changed = turn.change_protocols(member, event.protocols)
    rebalance.await_join(turn, _with_timeouts(changed, event), event.caller)
    rebalance.begin(turn)


def _changes_nothing(turn: Turn, member: Member, event: Join) -> bool:
    """Whether the member only missed its answer, and can be told again of the generation that there is.

    A leader that joins while the group is stable means to start a rebalance: topics may have changed.
    """
    if member.protocols != event.protocols:
        return False
    if turn.state is GroupState.STABLE:
        return member.member_id != turn.leader_id
    return turn.state is GroupState.COMPLETING_REBALANCE


def _with_timeouts(member: Member, event: Join) -> Member:
    return member._replace(rebalance_timeout_ms=event.rebalance_timeout_ms, session_timeout_ms=event.session_timeout_ms)
