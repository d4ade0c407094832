"""A group and its members at a time, as the coordinator describes groups of both kinds. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sordini.protocol.consumer_assignment import read_assignment
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple
from sordini.testing.arguments import texts

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""Protocols, as clients name them in `group.protocol`."""
DEAD: Final = "Dead"
_CLASSIC_MEMBER: Final = 0
"""ConsumerGroupDescribe's `member_type`; of its other values, 1 is a member of the new protocol."""


class GroupMember(NamedTuple):
    """One member."""

    id: str
    instance_id: str | None
    """Of a static member."""
    client_id: str
    protocol: str
    """CLASSIC or CONSUMER: what the client speaks. A consumer group may have members of both."""
    epoch: int | None
    """The member epoch; None in a classic group, whose generation is not described."""
    assigned: tuple[TopicPartition, ...]
    """What it has; in a classic group while that is stable."""
    target: tuple[TopicPartition, ...]
    """What it is to have; in a classic group the same."""


class GroupState(NamedTuple):
    """A group. One that does not exist is DEAD, without a protocol."""

    name: str
    protocol: str | None
    """CLASSIC or CONSUMER: who assigns, the leader or the coordinator."""
    state: str
    """As Apache Kafka names it: `Stable`."""
    epoch: int | None
    """The group epoch, None of a classic group."""
    assignment_epoch: int | None
    """Lower than the group epoch until a target is computed for it; None of a classic group."""
    assignor: str
    """The assignor of the group, "" where none is chosen."""
    members: tuple[GroupMember, ...]
    """In the order of the coordinator."""


def group_that_is_not_there(name: str) -> GroupState:
    return GroupState(name, None, DEAD, None, None, "", ())


def classic_group(found: Any) -> GroupState:
    """A group of DescribeGroups."""
    members = tuple(_classic_member(member) for member in found.members)
    return GroupState(found.group_id, CLASSIC, found.group_state, None, None, found.protocol_data, members)


def consumer_group(found: Any) -> GroupState:
    """A group of ConsumerGroupDescribe."""
    members = tuple(
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            CLASSIC if member.member_type == _CLASSIC_MEMBER else CONSUMER,
            member.member_epoch,
            _partitions(member.assignment),
            _partitions(member.target_assignment),
        )
        for member in found.members
    )
    return GroupState(
        found.group_id,
        CONSUMER,
        found.group_state,
        found.group_epoch,
        found.assignment_epoch,
        found.assignor_name,
        members,
    )


def member_ids(name: str, value: Any) -> list[str]:
    """The ids of members that a test names: by their ids, or as they were described. Raises ArgumentRefused."""
    if isinstance(value, GroupMember):
        return [value.id]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return texts(name, value)
    return texts(name, [one.id if isinstance(one, GroupMember) else one for one in value])


def _classic_member(found: Any) -> GroupMember:
    assigned = tuple(read_assignment(found.member_assignment) or ())  # Of other clients than consumers it is None.
    return GroupMember(found.member_id, found.group_instance_id, found.client_id, CLASSIC, None, assigned, assigned)


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(row.topic_name, index) for row in assignment.topic_partitions for index in row.partitions)
    )
