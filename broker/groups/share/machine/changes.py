"""What a step changes of a share group's persistent part: one value for each record that it appends.

None stands for a tombstone. `folded.py` makes a group of changes again; `record_formats.py` writes and reads them. The
epochs and the targets are those of consumer groups.
"""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.changes import GroupEpochChange, TargetChange, TargetEpochChange
from sordini.broker.groups.share.machine.state import Partitions, PartitionStates, ShareMember
from sordini.system.named_tuple import NamedTuple


class MemberChange(NamedTuple):
    """What a member said of itself; of the value, epochs and partitions are not written."""

    member_id: str
    value: ShareMember | None


class Assigned(NamedTuple):
    """Epochs and partitions of a member."""

    epoch: int
    previous_epoch: int
    assigned: Partitions


class AssignedChange(NamedTuple):
    member_id: str
    value: Assigned | None


class StatesChange(NamedTuple):
    """Whose states the share coordinator has."""

    value: PartitionStates | None


Change = MemberChange | GroupEpochChange | TargetEpochChange | TargetChange | AssignedChange | StatesChange


def assigned_of(member: ShareMember) -> AssignedChange:
    return AssignedChange(member.member_id, Assigned(member.epoch, member.previous_epoch, member.assigned))
