"""A share group made of its records: the last change of each key, folded in any order."""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeVar

from sordini.broker.groups.consumer.machine.changes import (
    GroupEpoch,
    GroupEpochChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.state import FIRST_EPOCH
from sordini.broker.groups.share.machine.changes import Assigned, AssignedChange, Change, MemberChange, StatesChange
from sordini.broker.groups.share.machine.state import Partitions, PartitionStates, ShareGroup, ShareMember

T = TypeVar("T")


class FoldedShareGroup:
    """What the records of one group say. A tombstone takes its key's value away."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._states: PartitionStates | None = None
        self._members: dict[str, ShareMember] = {}
        self._assigned: dict[str, Assigned] = {}
        self._targets: dict[str, Partitions] = {}

    def fold(self, change: Change) -> None:
        match change:
            case GroupEpochChange(value):
                self._epoch = value
            case TargetEpochChange(target):
                self._target_epoch = target
            case StatesChange(states):
                self._states = states
            case MemberChange(member_id, member):
                _set(self._members, member_id, member)
            case AssignedChange(member_id, assigned):
                _set(self._assigned, member_id, assigned)
            case TargetChange(member_id, partitions):
                _set(self._targets, member_id, partitions)

    def group(self, now_ms: int, wall_ms: int, session_timeout_ms: int) -> ShareGroup | None:
        """The group, with sessions that start now (monotonic); None if there are tombstones only.

        States that were being initialized have the whole interval again before that is tried again.
        """
        if self._epoch is None and self._states is None and not self._members:
            return None
        members = {member_id: self._member(member) for member_id, member in self._members.items()}
        deadline_ms = now_ms + session_timeout_ms
        epoch = self._epoch or GroupEpoch(FIRST_EPOCH, 0)
        target = self._target_epoch or TargetEpoch(FIRST_EPOCH, 0)
        return ShareGroup(
            self._group_id,
            epoch.epoch,
            epoch.metadata_hash,
            target.epoch,
            target.assigned_ms,
            MappingProxyType(members),
            MappingProxyType({m: partitions for m, partitions in self._targets.items() if m in members}),
            self._states,
            dict.fromkeys(members, deadline_ms),
            deadline_ms if members else None,
            states_ms=wall_ms,
        )

    def _member(self, member: ShareMember) -> ShareMember:
        assigned = self._assigned.get(member.member_id)
        return member if assigned is None else member._replace(**assigned._asdict())


def _set(values: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
