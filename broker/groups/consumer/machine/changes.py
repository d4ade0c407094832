"""What a step changes of a group's persistent part: one value for each record that it appends.

None stands for a tombstone. `folded.py` makes a group of changes again; `record_formats.py` writes and reads them.
"""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.state import ConsumerMember, MemberState, Owned, Partitions, ResolvedRegex
from sordini.system.named_tuple import NamedTuple


class GroupEpoch(NamedTuple):
    """The group epoch, and the hash of the subscribed topics."""

    epoch: int
    metadata_hash: int


class GroupEpochChange(NamedTuple):
    value: GroupEpoch | None


class OldMetadataChange(NamedTuple):
    """Of releases before 4.1, which stored partition counts: there are tombstones only."""


class SubscriptionChange(NamedTuple):
    """What a member said of itself; of the value, epochs, state and partitions are not written."""

    member_id: str
    value: ConsumerMember | None


class TargetEpoch(NamedTuple):
    """The assignment epoch, and when its target was computed (wall clock)."""

    epoch: int
    assigned_ms: int


class TargetEpochChange(NamedTuple):
    value: TargetEpoch | None


class TargetChange(NamedTuple):
    """One member's target."""

    member_id: str
    value: Partitions | None


class Assigned(NamedTuple):
    """Epochs, state and partitions of a member."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Owned
    pending_revocation: Owned


class AssignmentChange(NamedTuple):
    member_id: str
    value: Assigned | None


class RegexChange(NamedTuple):
    regex: str
    value: ResolvedRegex | None


Change = (
    GroupEpochChange
    | OldMetadataChange
    | SubscriptionChange
    | TargetEpochChange
    | TargetChange
    | AssignmentChange
    | RegexChange
)


def assignment_of(member: ConsumerMember) -> AssignmentChange:
    return AssignmentChange(
        member.member_id,
        Assigned(member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation),
    )
