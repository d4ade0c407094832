"""One step of a group: the fields that change, kept consistent with each other, and the changes to be written.

Mappings are copied when they change first, and only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from sordini.broker.groups.consumer.machine.changes import (
    AssignmentChange,
    Change,
    RegexChange,
    SubscriptionChange,
    TargetChange,
    assignment_of,
)
from sordini.broker.groups.consumer.machine.events import Action, Answer, ClassicState, MemberFenced, Step, StepContext
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember, Owned, Partitions, ResolvedRegex
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId

K = TypeVar("K")
V = TypeVar("V")


class ConsumerTransition:
    """The group during a step."""

    def __init__(self, group: ConsumerGroup, around: StepContext) -> None:
        self.before = group
        self.around = around
        self.epoch = group.epoch
        self.metadata_hash = group.metadata_hash
        self.assignment_epoch = group.assignment_epoch
        self.assigned_ms = group.assigned_ms
        self.topics_version = group.topics_version
        self.is_target_under_way = group.is_target_under_way
        self.resolving = group.resolving
        self.regexes_due_ms = group.regexes_due_ms
        self.grace = group.grace
        self.due_ms = group.due_ms
        self.becomes_classic: ClassicState | None = None
        self.changes: list[Change] = []
        self.actions: list[Action] = []
        self._members: dict[str, ConsumerMember] | None = None
        self._targets: dict[str, Partitions] | None = None
        self._regexes: dict[str, ResolvedRegex] | None = None
        self._owners: dict[TopicId, Mapping[int, str]] | None = None
        self._copied_owners: dict[TopicId, dict[int, str]] = {}
        """Those of `_owners` that are copies."""
        self._static_member_ids: dict[str, str] | None = None
        self._session_deadlines_ms: dict[str, int] | None = None
        self._rebalance_deadlines_ms: dict[str, int] | None = None

    # Queries.

    @property
    def group_id(self) -> str:
        return self.before.group_id

    @property
    def members(self) -> Mapping[str, ConsumerMember]:
        return self.before.members if self._members is None else self._members

    @property
    def targets(self) -> Mapping[str, Partitions]:
        return self.before.targets if self._targets is None else self._targets

    @property
    def regexes(self) -> Mapping[str, ResolvedRegex]:
        return self.before.regexes if self._regexes is None else self._regexes

    @property
    def static_member_ids(self) -> Mapping[str, str]:
        return self.before.static_member_ids if self._static_member_ids is None else self._static_member_ids

    @property
    def rebalance_deadlines_ms(self) -> Mapping[str, int]:
        deadlines = self._rebalance_deadlines_ms
        return self.before.rebalance_deadlines_ms if deadlines is None else deadlines

    @property
    def session_deadlines_ms(self) -> Mapping[str, int]:
        deadlines = self._session_deadlines_ms
        return self.before.session_deadlines_ms if deadlines is None else deadlines

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_member_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_free(self, topic: TopicId, partition: int, member_id: str) -> bool:
        """Whether no other member has a partition."""
        owners = self.before.owners if self._owners is None else self._owners
        return owners.get(topic, {}).get(partition, member_id) == member_id

    # Members.

    def put_member(self, member: ConsumerMember) -> None:
        """Add or replace a member under its id; no change is recorded."""
        former = self.members.get(member.member_id)
        self._changed_members()[member.member_id] = member
        if former is not None and former.instance_id not in (None, member.instance_id):
            self._changed_static_ids().pop(former.instance_id)
        if member.instance_id is not None:
            self._changed_static_ids()[member.instance_id] = member.member_id
        owned_before = () if former is None else (former.assigned, former.pending_revocation)
        if owned_before != (member.assigned, member.pending_revocation):
            self._release(owned_before, member.member_id)
            self._take((member.assigned, member.pending_revocation), member.member_id)

    def check_size(self) -> None:
        """Raise BrokerError GROUP_MAX_SIZE_REACHED if there is no room for one member more."""
        members_max = self.around.settings.members_max
        if len(self.members) >= members_max:
            raise BrokerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {members_max} members.",
            )

    def drop_member(self, member: ConsumerMember, *, is_written: bool = True) -> None:
        """Remove a member, with tombstones for all that is written of it, unless the caller writes them."""
        member_id = member.member_id
        if is_written:
            self.changes += (
                AssignmentChange(member_id, None),
                TargetChange(member_id, None),
                SubscriptionChange(member_id, None),
            )
        del self._changed_members()[member_id]
        if member.instance_id is not None and self.static_member_ids.get(member.instance_id) == member_id:
            del self._changed_static_ids()[member.instance_id]
        self._release((member.assigned, member.pending_revocation), member_id)
        self.put_target(member_id, None)
        self.stop_session(member_id)
        self.stop_rebalance_timer(member_id)

    def fenced(self, member: ConsumerMember, reason: str) -> None:
        self.actions.append(MemberFenced(member.member_id, member.instance_id, reason))

    def put_target(self, member_id: str, target: Partitions | None) -> None:
        """Replace a member's target, or remove it; no change is recorded."""
        if target is None and member_id not in self.targets:
            return
        if self._targets is None:
            self._targets = dict(self.before.targets)
        if target is None:
            del self._targets[member_id]
        else:
            self._targets[member_id] = target

    def write_assignment(self, member: ConsumerMember) -> None:
        """Replace a member whose epochs, state or partitions are different, and record that."""
        self.put_member(member)
        self.changes.append(assignment_of(member))

    # Regular expressions.

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Replace what a regular expression matches, or forget it, and record that."""
        if self._regexes is None:
            self._regexes = dict(self.before.regexes)
        if resolved is None:
            del self._regexes[regex]
        else:
            self._regexes[regex] = resolved
        self.changes.append(RegexChange(regex, resolved))

    # Deadlines.

    def restart_session(self, member_id: str) -> None:
        classic = self.members[member_id].classic
        timeout_ms = self.around.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        deadline_ms = self.around.now.monotonic_ms + timeout_ms
        self._changed_sessions()[member_id] = self.schedule(deadline_ms)

    def extend_session(self, member_id: str, deadline_ms: int) -> None:
        self._changed_sessions()[member_id] = self.schedule(deadline_ms)

    def stop_session(self, member_id: str) -> None:
        if member_id in self.session_deadlines_ms:
            del self._changed_sessions()[member_id]

    def start_rebalance_timer(self, member_id: str, timeout_ms: int) -> None:
        self._changed_rebalances()[member_id] = self.schedule(self.around.now.monotonic_ms + timeout_ms)

    def stop_rebalance_timer(self, member_id: str) -> None:
        if member_id in self.rebalance_deadlines_ms:
            del self._changed_rebalances()[member_id]

    def schedule(self, deadline_ms: int) -> int:
        """Make sure that a `Tick` comes at this deadline; returns it."""
        if self.due_ms is None or deadline_ms < self.due_ms:
            self.due_ms = deadline_ms
        return deadline_ms

    # The end of the step.

    def finish(self, answer: Answer | None = None) -> Step:
        before = self.before
        group = ConsumerGroup(
            before.group_id,
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assigned_ms,
            _frozen(self._members, before.members),
            _frozen(self._targets, before.targets),
            _frozen(self._regexes, before.regexes),
            before.owners if self._owners is None else MappingProxyType(self._owners),
            _frozen(self._static_member_ids, before.static_member_ids),
            before.session_deadlines_ms if self._session_deadlines_ms is None else self._session_deadlines_ms,
            _frozen(self._rebalance_deadlines_ms, before.rebalance_deadlines_ms),
            self.due_ms,
            self.topics_version,
            self.grace,
            self.is_target_under_way,
            self.resolving,
            self.regexes_due_ms,
        )
        return Step(group, tuple(self.changes), answer, tuple(self.actions), self.becomes_classic)

    # Copies of what changes.

    def _changed_members(self) -> dict[str, ConsumerMember]:
        if self._members is None:
            self._members = dict(self.before.members)
        return self._members

    def _changed_static_ids(self) -> dict[str, str]:
        if self._static_member_ids is None:
            self._static_member_ids = dict(self.before.static_member_ids)
        return self._static_member_ids

    def _changed_sessions(self) -> dict[str, int]:
        if self._session_deadlines_ms is None:
            self._session_deadlines_ms = dict(self.before.session_deadlines_ms)
        return self._session_deadlines_ms

    def _changed_rebalances(self) -> dict[str, int]:
        if self._rebalance_deadlines_ms is None:
            self._rebalance_deadlines_ms = dict(self.before.rebalance_deadlines_ms)
        return self._rebalance_deadlines_ms

    def _release(self, owned: Iterable[Owned], member_id: str) -> None:
        for partitions in owned:
            for topic, epochs in partitions.items():
                owners = self._changed_owners(topic)
                for partition in epochs:
                    # After a replay of records of another writer a partition may have had two owners.
                    if owners.get(partition) == member_id:
                        del owners[partition]

    def _take(self, owned: Iterable[Owned], member_id: str) -> None:
        for partitions in owned:
            for topic, epochs in partitions.items():
                owners = self._changed_owners(topic)
                for partition in epochs:
                    owners[partition] = member_id

    def _changed_owners(self, topic: TopicId) -> dict[int, str]:
        if self._owners is None:
            self._owners = dict(self.before.owners)
        if topic not in self._copied_owners:
            self._owners[topic] = self._copied_owners[topic] = dict(self._owners.get(topic, {}))
        return self._copied_owners[topic]


def _frozen(changed: dict[K, V] | None, before: MappingProxyType[K, V]) -> MappingProxyType[K, V]:
    return before if changed is None else MappingProxyType(changed)
