"""One step of a share group: the fields that change, and the changes to be written. Mappings are copied on change."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sordini.broker.groups.consumer.machine.changes import (
    GroupEpoch,
    GroupEpochChange,
    TargetChange,
)
from sordini.broker.groups.share.machine.changes import AssignedChange, Change, MemberChange, StatesChange, assigned_of
from sordini.broker.groups.share.machine.events import Action, Answer, EpochCause, EpochRaised, Step, StepContext
from sordini.broker.groups.share.machine.state import Partitions, PartitionStates, ShareGroup, ShareMember


class ShareTransition:
    """The group during a step."""

    def __init__(self, group: ShareGroup, around: StepContext) -> None:
        self.before = group
        self.around = around
        self.epoch = group.epoch
        self.metadata_hash = group.metadata_hash
        self.assignment_epoch = group.assignment_epoch
        self.assigned_ms = group.assigned_ms
        self.topics_version = group.topics_version
        self.states = group.states
        self.states_ms = group.states_ms
        self.grace = group.grace
        self.due_ms = group.due_ms
        self.is_target_under_way = group.is_target_under_way
        self.changes: list[Change] = []
        self.actions: list[Action] = []
        self._members: dict[str, ShareMember] | None = None
        self._targets: dict[str, Partitions] | None = None
        self._session_deadlines_ms: dict[str, int] | None = None

    # Queries.

    @property
    def members(self) -> Mapping[str, ShareMember]:
        return self.before.members if self._members is None else self._members

    @property
    def targets(self) -> Mapping[str, Partitions]:
        return self.before.targets if self._targets is None else self._targets

    @property
    def session_deadlines_ms(self) -> Mapping[str, int]:
        deadlines = self._session_deadlines_ms
        return self.before.session_deadlines_ms if deadlines is None else deadlines

    # Members.

    def put_member(self, member: ShareMember) -> None:
        """Add or replace a member; no change is recorded."""
        if self._members is None:
            self._members = dict(self.before.members)
        self._members[member.member_id] = member

    def write_member(self, member: ShareMember) -> None:
        """Replace a member that says something new of itself, and record that."""
        self.put_member(member)
        self.changes.append(MemberChange(member.member_id, member))

    def write_assigned(self, member: ShareMember) -> None:
        """Replace a member whose epochs or partitions are different, and record that."""
        self.put_member(member)
        self.changes.append(assigned_of(member))

    def drop_member(self, member_id: str) -> None:
        """Remove a member, with tombstones for all that is written of it."""
        self.changes += (AssignedChange(member_id, None), TargetChange(member_id, None), MemberChange(member_id, None))
        if self._members is None:
            self._members = dict(self.before.members)
        del self._members[member_id]
        if member_id in self.targets:
            self._changed_targets().pop(member_id)
        self._changed_sessions().pop(member_id, None)

    def put_target(self, member_id: str, target: Partitions) -> None:
        """Replace a member's target, and record that."""
        self._changed_targets()[member_id] = target
        self.changes.append(TargetChange(member_id, target))

    # The group.

    def raise_epoch(self, cause: EpochCause, current: int) -> None:
        """Raise the group epoch; `current` is the hash of the subscribed topics."""
        self.epoch += 1
        self.metadata_hash = current
        self.changes.append(GroupEpochChange(GroupEpoch(self.epoch, current)))
        self.actions.append(EpochRaised(self.epoch, cause))

    def write_states(self, states: PartitionStates) -> None:
        self.states = states
        self.states_ms = self.around.now.wall_ms
        self.changes.append(StatesChange(states))

    # Deadlines.

    def restart_session(self, member_id: str) -> None:
        deadline_ms = self.around.now.monotonic_ms + self.around.settings.session_timeout_ms
        self._changed_sessions()[member_id] = deadline_ms
        self.schedule(deadline_ms)

    def schedule(self, deadline_ms: int) -> None:
        """Make sure that a `Tick` comes at this deadline."""
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms

    # The end of the step.

    def finish(self, answer: Answer | None = None) -> Step:
        before = self.before
        group = ShareGroup(
            before.group_id,
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assigned_ms,
            before.members if self._members is None else MappingProxyType(self._members),
            before.targets if self._targets is None else MappingProxyType(self._targets),
            self.states,
            before.session_deadlines_ms if self._session_deadlines_ms is None else self._session_deadlines_ms,
            self.due_ms,
            self.topics_version,
            self.states_ms,
            self.grace,
            self.is_target_under_way,
        )
        return Step(group, tuple(self.changes), answer, tuple(self.actions))

    def _changed_targets(self) -> dict[str, Partitions]:
        if self._targets is None:
            self._targets = dict(self.before.targets)
        return self._targets

    def _changed_sessions(self) -> dict[str, int]:
        if self._session_deadlines_ms is None:
            self._session_deadlines_ms = dict(self.before.session_deadlines_ms)
        return self._session_deadlines_ms
