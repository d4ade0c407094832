"""Static members that rejoin after a restart (KIP-345): the instance id stays, the member id is new, the old is fenced.

In a stable group this starts no rebalance, unless the vote for the protocol changes: the new id replaces the old one in
the group's record, and the member keeps its assignment. Its join is answered once the record is written; if the write
fails, the replacement is reverted. A leader that rejoins must not assign again, since the other members of a stable
group would not receive the result: its answer says to skip the assignment (KIP-814) or, for older clients, names the
previous leader.

`join_group.py` recognises such a member by its instance id, and calls this.
"""

from __future__ import annotations

from sordini.broker.groups.machine import protocol_selection, rebalance
from sordini.broker.groups.machine.events import Join, JoinAnswer
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.state import GroupState, PendingWrite, ReplacementWrite
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode

PENDING_WRITES_MAX = 1_000
"""Limit of unwritten replacements of a group; further ones are answered COORDINATOR_LOAD_IN_PROGRESS, a retry."""


def replace_static_member(transition: GroupTransition, event: Join, instance_id: str) -> None:
    if len(transition.pending_writes) >= PENDING_WRITES_MAX:
        transition.reply(event.caller, JoinAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    before = transition.members[transition.static_member_ids[instance_id]]
    leader_id = transition.leader_id
    transition.fail_pending_requests(before, ErrorCode.FENCED_INSTANCE_ID, answered_id=before.member_id)
    transition.fenced(before, f"replaced by {event.new_member_id}")
    before = before._replace(awaiting_join=None, awaiting_sync=None)
    member = before._replace(
        member_id=event.new_member_id,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        session_timeout_ms=event.session_timeout_ms,
        protocols=event.protocols,
        awaiting_join=event.caller,
    )
    transition.replace_member_id(before.member_id, transition.restart_session(member))
    selected = protocol_selection.select(transition.members.values(), transition.protocol_support)
    if transition.state is GroupState.STABLE and selected == transition.protocol_name:
        skips = event.supports_skipping_assignment
        transition.write_group(ReplacementWrite(before, member.member_id, leader_id, skips))
    else:
        # A leader that is computing the assignment has the old id in it, so the members have to join again.
        transition.rebalance_caused(RebalanceCause.STATIC_MEMBER_REPLACED, member, f"its id was {before.member_id}")
        rebalance.prepare(transition)


def replacement_written(
    transition: GroupTransition, write: PendingWrite, purpose: ReplacementWrite, error: ErrorCode | None
) -> None:
    """The record with the new id was written, or the write failed."""
    member = transition.members.get(purpose.member_id)
    if transition.state is not GroupState.STABLE or transition.generation_id != write.generation_id:
        return  # A rebalance has started; its generation is written with the new id and answers the join.
    if member is None:
        if error is not None:
            _revert_in_later_write(transition, purpose)
        return
    if error is not None:
        _revert(transition, purpose, error)
        return
    if member.awaiting_join is not None:
        transition.reply(member.awaiting_join, _answer(transition, purpose))
        transition.update_member(transition.restart_session(member._replace(awaiting_join=None)))


def _answer(transition: GroupTransition, purpose: ReplacementWrite) -> JoinAnswer:
    if purpose.supports_skipping_assignment:
        return rebalance.join_answer(
            transition, purpose.member_id, skip_assignment=purpose.member_id == transition.leader_id
        )
    return JoinAnswer(
        ErrorCode.NONE,
        transition.generation_id,
        transition.protocol_type,
        transition.protocol_name,
        purpose.leader_id or "",
        member_id=purpose.member_id,
    )


def _revert(transition: GroupTransition, purpose: ReplacementWrite, error: ErrorCode) -> None:
    member = transition.members[purpose.member_id]
    if member.awaiting_join is not None:
        generation = transition.generation_id, transition.protocol_type, transition.protocol_name
        transition.reply(member.awaiting_join, JoinAnswer(error, *generation, purpose.leader_id or ""))
    transition.replace_member_id(purpose.member_id, transition.restart_session(purpose.before))


def _revert_in_later_write(transition: GroupTransition, purpose: ReplacementWrite) -> None:
    """The id was replaced again before the failed write: if the later write fails, too, it reverts to `before`."""
    transition.pending_writes = tuple(
        later._replace(purpose=later.purpose._replace(before=purpose.before))
        if isinstance(later.purpose, ReplacementWrite) and later.purpose.before.member_id == purpose.member_id
        else later
        for later in transition.pending_writes
    )
