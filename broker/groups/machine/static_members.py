"""Static members that come back (KIP-345): the instance id stays, the member id is new, the old one is fenced.

In a stable group that is no reason to rebalance, as long as the vote for the protocol ends as it did: the new id is
written down in the old one's place and its bearer keeps the assignment. It is answered when that is written; if it
cannot be, everything is as it was. A leader that comes back must not assign again, since a stable group would not hear
of the result: it is told to skip that (KIP-814), or, if it is too old for that, that somebody else leads.
"""

from __future__ import annotations

from sordini.broker.groups.machine import protocol_selection, rebalance
from sordini.broker.groups.machine.events import Join, JoinAnswer
from sordini.broker.groups.machine.state import GroupState, Replacing, Writing
from sordini.broker.groups.machine.transition import Turn
from sordini.protocol.errors import ErrorCode

WRITES_MAX = 1_000
"""Replacements that may be waiting for the disk at once; more are told to try again."""


def replace_by(turn: Turn, event: Join, instance_id: str) -> None:
    if len(turn.writing) >= WRITES_MAX:
        turn.reply(event.caller, JoinAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    before = turn.members[turn.static_ids[instance_id]]
    leader_id = turn.leader_id
    turn.cut_off(before, ErrorCode.FENCED_INSTANCE_ID, told_id=before.member_id)
    before = before._replace(joining=None, syncing=None)
    member = before._replace(
        member_id=event.drawn_member_id,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
        protocols=event.protocols,
        joining=event.caller,
    )
    turn.rename(before.member_id, turn.heard(member))
    if (
        turn.state is GroupState.STABLE
        and protocol_selection.select(turn.members.values(), turn.support) == turn.protocol_name
    ):
        turn.write(Replacing(before, member.member_id, leader_id, event.may_skip_assignment))
    else:
        # While the leader assigns, it assigns to the old id: that has to begin again.
        rebalance.begin(turn)


def written(turn: Turn, writing: Writing, purpose: Replacing, error: ErrorCode | None) -> None:
    """The new id is written down, or could not be."""
    member = turn.members.get(purpose.member_id)
    if turn.state is not GroupState.STABLE or turn.generation_id != writing.generation_id:
        return  # A rebalance has begun since; its generation is written with the new id, and answers the join.
    if member is None:
        if error is not None:
            _never_was(turn, purpose)
        return
    if error is not None:
        _undo(turn, purpose, error)
        return
    if member.joining is not None:
        turn.reply(member.joining, _answer(turn, purpose))
        turn.put(turn.heard(member._replace(joining=None)))


def _answer(turn: Turn, purpose: Replacing) -> JoinAnswer:
    if purpose.may_skip_assignment:
        return rebalance.answer(turn, purpose.member_id, skip_assignment=purpose.member_id == turn.leader_id)
    return JoinAnswer(
        ErrorCode.NONE,
        turn.generation_id,
        turn.protocol_type,
        turn.protocol_name,
        purpose.leader_id or "",
        member_id=purpose.member_id,
    )


def _undo(turn: Turn, purpose: Replacing, error: ErrorCode) -> None:
    member = turn.members[purpose.member_id]
    if member.joining is not None:
        told = (turn.generation_id, turn.protocol_type, turn.protocol_name, purpose.leader_id or "")
        turn.reply(member.joining, JoinAnswer(error, *told))
    turn.rename(purpose.member_id, turn.heard(purpose.before))


def _never_was(turn: Turn, purpose: Replacing) -> None:
    """The id was replaced again before it could be written: if that fails too, this one's old self returns."""
    turn.writing = tuple(
        later._replace(purpose=later.purpose._replace(before=purpose.before))
        if isinstance(later.purpose, Replacing) and later.purpose.before.member_id == purpose.member_id
        else later
        for later in turn.writing
    )
