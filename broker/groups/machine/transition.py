"""One step of a group's machine: the changes of the group, and the actions.

`machine.step` works on a `GroupTransition`, which keeps the derived fields consistent with the members (static member
ids, protocol support, leader, the earliest deadline), and answers the pending requests of members that are removed.
"""

from __future__ import annotations

from types import MappingProxyType

from sordini.broker.groups.machine import protocol_selection
from sordini.broker.groups.machine.events import (
    Action,
    GroupAnswer,
    GroupLimits,
    GroupReply,
    GroupWrite,
    JoinAnswer,
    LeaveAnswer,
    MemberFenced,
    Now,
    RebalanceCompleted,
    SyncAnswer,
)
from sordini.broker.groups.machine.persistent_state import persistent_value
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, RebalanceCaused
from sordini.broker.groups.machine.state import (
    AssignmentWrite,
    Caller,
    EmptyGroupWrite,
    Group,
    GroupState,
    Member,
    PendingWrite,
    Protocol,
    ReplacementWrite,
    TombstoneWrite,
)
from sordini.protocol.errors import ErrorCode

NEW_MEMBER_TIMEOUT_MS = 300_000
"""Limit for a pending first join: its client cannot send heartbeats, as it does not know the id."""

VALID_PREVIOUS_STATES = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}
"""The states that may precede each state. A group leaves DEAD only when its tombstone could not be written."""


class GroupTransition:
    """The changes and actions of one step. Fields that no method changes are set by the deciding modules."""

    def __init__(self, group: Group, now: Now, limits: GroupLimits) -> None:
        self.now_ms = now.monotonic_ms
        self.limits = limits
        self.group_id = group.group_id
        self.state = group.state
        self.generation_id = group.generation_id
        self.protocol_type = group.protocol_type
        self.protocol_name = group.protocol_name
        self.leader_id = group.leader_id
        self.members = group.members.copy()
        self.pending_joins = group.pending_joins.copy()
        self.rebalance_deadline_ms = group.rebalance_deadline_ms
        self.static_member_ids = group.static_member_ids.copy()
        self.protocol_support = group.protocol_support.copy()
        self.initial_delay = group.initial_delay
        self.sync_deadline_ms = group.sync_deadline_ms
        self.pending_writes = group.pending_writes
        self.due_ms = group.due_ms
        self.grace = group.grace
        self.completes_at_once = False
        """Whether the rebalance that starts in this step has no delay."""
        self._state_since_ms = group.state_since_ms
        self._writes = group.write_count
        self._has_changed_state = False
        self._wall_ms = now.wall_ms
        self._actions: list[Action] = []

    def finish(self) -> tuple[Group, list[Action]]:
        """The group after this step, and the actions in order."""
        if self._has_changed_state and self.grace is None:
            self.due_ms = self.earliest_deadline_ms()
        return self._group(), self._actions

    def _group(self) -> Group:
        return Group(
            self.group_id,
            self.state,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader_id,
            MappingProxyType(self.members),
            MappingProxyType(self.pending_joins),
            self.rebalance_deadline_ms,
            self._state_since_ms,
            MappingProxyType(self.static_member_ids),
            MappingProxyType(self.protocol_support),
            self.initial_delay,
            self.sync_deadline_ms,
            self.pending_writes,
            self._writes,
            self.due_ms,
            self.grace,
        )

    # Queries.

    @property
    def joined_count(self) -> int:
        """How many members have joined."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports_protocols(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member with these protocols can be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and protocol_selection.has_common(
            self.protocol_support, len(self.members), protocols
        )

    def earliest_deadline_ms(self) -> int | None:
        """The next deadline."""
        deadlines = [*self.pending_joins.values(), self.rebalance_deadline_ms, self.sync_deadline_ms]
        deadlines += [member.expires_ms for member in self.members.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Changes.

    def transition_to(self, state: GroupState) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.group_id}: from {self.state} to {state}"
        self.state = state
        self._has_changed_state = True
        self._state_since_ms = self._wall_ms

    def schedule(self, deadline_ms: int) -> int:
        """Make sure that a `Tick` comes at this deadline; returns it."""
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms
        return deadline_ms

    def update_member(self, member: Member) -> None:
        """Replace a member by its new value; its id, instance id and protocols must be unchanged."""
        self.members[member.member_id] = member

    def add_member(self, member: Member, protocol_type: str) -> None:
        """Add a new member; the first one determines the group's protocol type, and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        protocol_selection.count(self.protocol_support, member.protocols, 1)
        if member.group_instance_id is not None:
            self.static_member_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove_member(self, member_id: str, fenced: str | None = None) -> None:
        """Remove a member, or an id that was given out. The oldest of the others succeeds a leader.

        `fenced` is the reason, for a member that has not left by a request of its own.
        """
        self.pending_joins.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        protocol_selection.count(self.protocol_support, member.protocols, -1)
        if member.group_instance_id is not None:
            del self.static_member_ids[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.fail_pending_requests(member, ErrorCode.UNKNOWN_MEMBER_ID, answered_id="")
        if fenced is not None:
            self.fenced(member, fenced)

    def replace_member_id(self, old_id: str, new: Member) -> None:
        """Give a static member another id, in the same position."""
        old = self.members[old_id]
        assert new.group_instance_id is not None
        assert new.group_instance_id == old.group_instance_id
        self.members = {
            (new.member_id if member_id == old_id else member_id): (new if member_id == old_id else member)
            for member_id, member in self.members.items()
        }
        self.static_member_ids[new.group_instance_id] = new.member_id
        protocol_selection.count(self.protocol_support, old.protocols, -1)
        protocol_selection.count(self.protocol_support, new.protocols, 1)
        if self.leader_id == old_id:
            self.leader_id = new.member_id

    def update_protocols(self, member: Member, protocols: tuple[Protocol, ...]) -> Member:
        protocol_selection.count(self.protocol_support, member.protocols, -1)
        protocol_selection.count(self.protocol_support, protocols, 1)
        changed = member._replace(protocols=protocols)
        self.update_member(changed)
        return changed

    def restart_session(self, member: Member) -> Member:
        """The member with a session that starts now."""
        timeout_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        return member._replace(session_deadline_ms=self.schedule(self.now_ms + timeout_ms))

    # Actions.

    def reply(self, caller: Caller, answer: JoinAnswer | SyncAnswer | LeaveAnswer | GroupAnswer) -> None:
        self._actions.append(GroupReply(caller, answer))

    def fail_pending_requests(self, member: Member, error: ErrorCode, answered_id: str) -> None:
        """Answer the pending requests of a member with an error. The member itself is updated by the caller."""
        if member.awaiting_join is not None:
            self.reply(member.awaiting_join, JoinAnswer(error, member_id=answered_id))
        if member.awaiting_sync is not None:
            self.reply(member.awaiting_sync, SyncAnswer(error))

    def write_group(self, purpose: AssignmentWrite | ReplacementWrite | TombstoneWrite | EmptyGroupWrite) -> None:
        """Write the group as it is now, with the assignments that are about to be sent; or its tombstone."""
        self._writes += 1
        value = None
        if not isinstance(purpose, TombstoneWrite):
            value = persistent_value(
                self._group(), purpose.assignments if isinstance(purpose, AssignmentWrite) else None
            )
        self.pending_writes += (PendingWrite(self._writes, self.generation_id, purpose),)
        self._actions.append(GroupWrite(self.generation_id, value, self._writes))

    def fenced(self, member: Member, reason: str) -> None:
        self._actions.append(MemberFenced(member.member_id, member.group_instance_id, reason))

    def rebalance_caused(self, cause: RebalanceCause, member: Member | None, detail: str | None = None) -> None:
        self._actions.append(RebalanceCaused(cause, member, detail or ""))

    def rebalance_completed(self) -> None:
        self._actions.append(RebalanceCompleted(self.generation_id, len(self.members), self.protocol_name))
