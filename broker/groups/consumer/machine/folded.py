"""A group made of its records: the last change of each key, folded in any order."""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeVar

from sordini.broker.groups.consumer.machine.changes import (
    Assigned,
    AssignmentChange,
    Change,
    GroupEpoch,
    GroupEpochChange,
    OldMetadataChange,
    RegexChange,
    SubscriptionChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.state import (
    FIRST_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    Partitions,
    ResolvedRegex,
)
from sordini.protocol.types import TopicId

T = TypeVar("T")


class FoldedGroup:
    """What the records of one group say. A tombstone takes its key's value away."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._subscriptions: dict[str, ConsumerMember] = {}
        self._assignments: dict[str, Assigned] = {}
        self._targets: dict[str, Partitions] = {}
        self._regexes: dict[str, ResolvedRegex] = {}

    def fold(self, change: Change) -> None:
        match change:
            case GroupEpochChange(value):
                self._epoch = value
            case TargetEpochChange(target):
                self._target_epoch = target
            case SubscriptionChange(member_id, member):
                _set(self._subscriptions, member_id, member)
            case AssignmentChange(member_id, assigned):
                _set(self._assignments, member_id, assigned)
            case TargetChange(member_id, partitions):
                _set(self._targets, member_id, partitions)
            case RegexChange(regex, resolved):
                _set(self._regexes, regex, resolved)
            case OldMetadataChange():
                pass  # What the topics are is read from the cluster's metadata.

    def group(self, now_ms: int, session_timeout_ms: int) -> ConsumerGroup | None:
        """The group, with sessions that start now (monotonic); None if there are tombstones only.

        A member that has to give partitions up has its whole rebalance timeout again: its client saw no restart.
        """
        if self._epoch is None and not self._subscriptions:
            return None
        members = {member_id: self._member(member) for member_id, member in self._subscriptions.items()}
        owners: dict[TopicId, dict[int, str]] = {}
        for member_id, member in members.items():
            for owned in (member.assigned, member.pending_revocation):
                for topic, epochs in owned.items():
                    owners.setdefault(topic, {}).update(dict.fromkeys(epochs, member_id))
        deadlines = {name: now_ms + _session_ms(member, session_timeout_ms) for name, member in members.items()}
        unrevoked = {
            member_id: now_ms + member.rebalance_timeout_ms
            for member_id, member in members.items()
            if member.pending_revocation
        }
        epoch = self._epoch or GroupEpoch(FIRST_EPOCH, 0)
        target = self._target_epoch or TargetEpoch(FIRST_EPOCH, 0)
        static = {member.instance_id: m for m, member in members.items() if member.instance_id is not None}
        return ConsumerGroup(
            self._group_id,
            epoch.epoch,
            epoch.metadata_hash,
            target.epoch,
            target.assigned_ms,
            MappingProxyType(members),
            MappingProxyType({m: partitions for m, partitions in self._targets.items() if m in members}),
            MappingProxyType(self._regexes),
            MappingProxyType(owners),
            MappingProxyType(static),
            deadlines,
            MappingProxyType(unrevoked),
            min((*deadlines.values(), *unrevoked.values()), default=None),
        )

    def _member(self, member: ConsumerMember) -> ConsumerMember:
        assigned = self._assignments.get(member.member_id)
        return member if assigned is None else member._replace(**assigned._asdict())


def _session_ms(member: ConsumerMember, session_timeout_ms: int) -> int:
    """A member of the classic protocol says itself how long it may be silent."""
    return session_timeout_ms if member.classic is None else member.classic.session_timeout_ms


def _set(values: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
