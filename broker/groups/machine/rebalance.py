"""From one generation to the next: asking everybody to join, waiting, and beginning when all have.

A rebalance ends when all members have joined and no id that was given out is still to come; or when its time is up, and
then those who have not joined are left behind. Static members stay even so, until their session ends (KIP-345). A
group that was empty waits its initial delay out, however many have joined, and longer if more keep coming.
"""

from __future__ import annotations

from sordini.broker.groups.machine import protocol_selection
from sordini.broker.groups.machine.events import JoinAnswer, JoinedMember, SyncAnswer
from sordini.broker.groups.machine.state import Caller, Emptying, GroupState, InitialDelay, Member
from sordini.broker.groups.machine.transition import Turn
from sordini.protocol.errors import ErrorCode

POSTPONED_MS_MIN = 1_000
"""When nobody has joined in time, the group waits on, and at least so long: a member may ask for a timeout of 0."""


def begin(turn: Turn) -> None:
    """Ask everybody to join again, unless they are being asked already."""
    if turn.state is GroupState.PREPARING_REBALANCE:
        return
    if turn.state is GroupState.COMPLETING_REBALANCE:
        answer_syncs(turn, ErrorCode.REBALANCE_IN_PROGRESS)
    forget_syncs(turn)
    wait_ms = turn.rebalance_timeout_ms
    if turn.state is GroupState.EMPTY:
        delay_ms = turn.limits.initial_rebalance_delay_ms
        turn.initial = InitialDelay(max(wait_ms - delay_ms, 0))
        wait_ms = delay_ms
    turn.become(GroupState.PREPARING_REBALANCE)
    _wait(turn, wait_ms)


def _wait(turn: Turn, wait_ms: int) -> None:
    turn.rebalance_ends_ms = turn.expect(turn.now_ms + wait_ms)
    turn.ends_at_once = wait_ms == 0


def settle(turn: Turn) -> None:
    """End the rebalance if all have joined or nothing is to be waited for. At the end of all that may change that.

    That its time is up is seen by `sessions.tick` alone, which knows of stalls.
    """
    if turn.state is not GroupState.PREPARING_REBALANCE:
        return
    all_joined = turn.initial is None and not turn.pending and turn.joined == len(turn.members)
    if all_joined or turn.ends_at_once:
        end(turn)


def end(turn: Turn) -> None:
    """All have joined, or the time is up."""
    initial = turn.initial
    if initial is not None and initial.newcomer_came:
        delay_ms = min(turn.limits.initial_rebalance_delay_ms, initial.remaining_ms)
        turn.initial = InitialDelay(initial.remaining_ms - delay_ms)
        _wait(turn, delay_ms)
        settle(turn)
        return
    turn.initial = None
    for member in [member for member in turn.members.values() if member.joining is None and not member.is_static]:
        turn.remove(member.member_id)
    if not turn.members:
        _become_empty(turn)
    elif _has_leader(turn):
        _begin_generation(turn)
    else:
        _wait(turn, max(turn.rebalance_timeout_ms, POSTPONED_MS_MIN))


def _has_leader(turn: Turn) -> bool:
    """See to it that a member leads that has joined; False if none has."""
    if turn.leader_id is None or turn.members[turn.leader_id].joining is None:
        joined = (member_id for member_id, member in turn.members.items() if member.joining is not None)
        turn.leader_id = next(joined, turn.leader_id)
    return turn.leader_id is not None and turn.members[turn.leader_id].joining is not None


def _become_empty(turn: Turn) -> None:
    turn.generation_id += 1
    turn.protocol_name = None
    turn.rebalance_ends_ms = None
    turn.become(GroupState.EMPTY)
    turn.write(Emptying())


def _begin_generation(turn: Turn) -> None:
    turn.generation_id += 1
    turn.protocol_name = protocol_selection.select(turn.members.values(), turn.support)
    turn.rebalance_ends_ms = None
    turn.become(GroupState.COMPLETING_REBALANCE)
    for member in list(turn.members.values()):
        if member.joining is not None:
            turn.reply(member.joining, answer(turn, member.member_id))
        turn.put(turn.heard(member._replace(joining=None, is_new=False, owes_sync=True)))
    turn.sync_ends_ms = turn.expect(turn.now_ms + turn.rebalance_timeout_ms)


def answer(turn: Turn, member_id: str, *, skip_assignment: bool = False) -> JoinAnswer:
    """What a member is told of this generation; its leader is told of all members."""
    return JoinAnswer(
        ErrorCode.NONE,
        turn.generation_id,
        turn.protocol_type,
        turn.protocol_name,
        turn.leader_id or "",
        skip_assignment,
        member_id,
        _members(turn) if member_id == turn.leader_id else (),
    )


def _members(turn: Turn) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(member.member_id, member.group_instance_id, member.metadata(turn.protocol_name))
        for member in turn.members.values()
    )


def answer_syncs(turn: Turn, error: ErrorCode) -> None:
    """The assignment did not come about: nobody has one, and who waits for it is told why."""
    for member in list(turn.members.values()):
        unassigned = member._replace(assignment=b"", syncing=None)
        if member.syncing is not None:
            turn.reply(member.syncing, SyncAnswer(error))
            unassigned = turn.heard(unassigned)
        turn.put(unassigned)


def forget_syncs(turn: Turn) -> None:
    turn.sync_ends_ms = None
    for member in [member for member in turn.members.values() if member.owes_sync]:
        turn.put(member._replace(owes_sync=False))


def await_join(turn: Turn, member: Member, caller: Caller) -> None:
    """Let a member's join wait. One that waited already is given up: its client has asked again."""
    if member.joining is not None:
        turn.reply(member.joining, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
    turn.put(member._replace(joining=caller))
