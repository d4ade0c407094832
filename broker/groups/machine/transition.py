"""One step of a group's machine in the making: the group as it becomes, and what is to be done about it.

A `Turn` is the scratch paper of `machine.step`. It keeps what must always agree in agreement (members, who is static,
which protocols have how much support, the earliest deadline), and it answers whoever is cut off when a member goes.
"""

from __future__ import annotations

from types import MappingProxyType

from sordini.broker.groups.machine import protocol_selection
from sordini.broker.groups.machine.events import (
    Action,
    Answer,
    GroupLimits,
    JoinAnswer,
    LeaveAnswer,
    Now,
    Reply,
    SyncAnswer,
    Write,
)
from sordini.broker.groups.machine.persistent_state import value_of
from sordini.broker.groups.machine.state import (
    Assigning,
    Caller,
    Deleting,
    Emptying,
    Group,
    GroupState,
    Member,
    Protocol,
    Replacing,
    Writing,
)
from sordini.protocol.errors import ErrorCode

NEW_MEMBER_TIMEOUT_MS = 300_000
"""A newcomer's first join waits no longer: its client may be gone, and it does not know its id to send heartbeats."""

BEFORE = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}
"""Which states a state can follow. Out of DEAD there is one way: the tombstone could not be written."""


class Turn:
    """The changes and actions of one step. What is not changed by a method is changed by whoever decides."""

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
        self.pending = group.pending.copy()
        self.rebalance_ends_ms = group.rebalance_ends_ms
        self.static_ids = group.static_ids.copy()
        self.support = group.support.copy()
        self.initial = group.initial
        self.sync_ends_ms = group.sync_ends_ms
        self.writing = group.writing
        self.due_ms = group.due_ms
        self.grace = group.grace
        self.ends_at_once = False
        """Whether the rebalance that begins in this step is not to be waited for at all."""
        self._state_since_ms = group.state_since_ms
        self._writes = group.writes
        self._has_changed_state = False
        self._wall_ms = now.wall_ms
        self._actions: list[Action] = []

    def finish(self) -> tuple[Group, list[Action]]:
        """The group after this step, and what is to be done, in order."""
        if self._has_changed_state and self.grace is None:
            self.due_ms = self.earliest_ms()
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
            MappingProxyType(self.pending),
            self.rebalance_ends_ms,
            self._state_since_ms,
            MappingProxyType(self.static_ids),
            MappingProxyType(self.support),
            self.initial,
            self.sync_ends_ms,
            self.writing,
            self._writes,
            self.due_ms,
            self.grace,
        )

    # What is known.

    @property
    def joined(self) -> int:
        """How many members' joins wait."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The group waits as long as the most patient of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether somebody with these protocols can be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and protocol_selection.has_common(
            self.support, len(self.members), protocols
        )

    def earliest_ms(self) -> int | None:
        """The next deadline."""
        deadlines = [*self.pending.values(), self.rebalance_ends_ms, self.sync_ends_ms]
        deadlines += [member.expires_ms for member in self.members.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # What changes.

    def become(self, state: GroupState) -> None:
        assert self.state in BEFORE[state], f"{self.group_id}: from {self.state} to {state}"
        self.state = state
        self._has_changed_state = True
        self._state_since_ms = self._wall_ms

    def expect(self, deadline_ms: int) -> int:
        """Note a deadline, so that nobody looks later than that."""
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms
        return deadline_ms

    def put(self, member: Member) -> None:
        """Take a member's new self; its id, instance id and protocols are what they were."""
        self.members[member.member_id] = member

    def add(self, member: Member, protocol_type: str) -> None:
        """Take a newcomer in; the first of a group settles its type, and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        protocol_selection.count(self.support, member.protocols, 1)
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Take a member out, or an id that was given out. What waits of it is answered; the oldest leads next."""
        self.pending.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        protocol_selection.count(self.support, member.protocols, -1)
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.cut_off(member, ErrorCode.UNKNOWN_MEMBER_ID, told_id="")

    def rename(self, old_id: str, new: Member) -> None:
        """Let a static member go on under another id, in the place where it was."""
        old = self.members[old_id]
        assert new.group_instance_id is not None
        assert new.group_instance_id == old.group_instance_id
        self.members = {
            (new.member_id if member_id == old_id else member_id): (new if member_id == old_id else member)
            for member_id, member in self.members.items()
        }
        self.static_ids[new.group_instance_id] = new.member_id
        protocol_selection.count(self.support, old.protocols, -1)
        protocol_selection.count(self.support, new.protocols, 1)
        if self.leader_id == old_id:
            self.leader_id = new.member_id

    def change_protocols(self, member: Member, protocols: tuple[Protocol, ...]) -> Member:
        protocol_selection.count(self.support, member.protocols, -1)
        protocol_selection.count(self.support, protocols, 1)
        changed = member._replace(protocols=protocols)
        self.put(changed)
        return changed

    def heard(self, member: Member) -> Member:
        """Start a member's session anew."""
        timeout_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        return member._replace(session_ends_ms=self.expect(self.now_ms + timeout_ms))

    # What is done.

    def reply(self, caller: Caller, answer: JoinAnswer | SyncAnswer | LeaveAnswer | Answer) -> None:
        self._actions.append(Reply(caller, answer))

    def cut_off(self, member: Member, error: ErrorCode, told_id: str) -> None:
        """Answer whatever waits of a member with an error. The member itself is the caller's to put."""
        if member.joining is not None:
            self.reply(member.joining, JoinAnswer(error, member_id=told_id))
        if member.syncing is not None:
            self.reply(member.syncing, SyncAnswer(error))

    def write(self, purpose: Assigning | Replacing | Deleting | Emptying) -> None:
        """Have the group written down as it is now: as it will be when its assignments are given, or its tombstone."""
        self._writes += 1
        value = None
        if not isinstance(purpose, Deleting):
            value = value_of(self._group(), purpose.assignments if isinstance(purpose, Assigning) else None)
        self.writing += (Writing(self._writes, self.generation_id, purpose),)
        self._actions.append(Write(self.generation_id, value, self._writes))
