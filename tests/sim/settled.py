"""Why a group has not settled: what its coordinator says of it, compared with what its members know."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from sordini.protocol.messages import consumer_group_describe
from sordini.protocol.messages.describe_groups import DescribedGroup
from sordini.protocol.types import TopicPartition
from tests.sim.assignments import assigned
from tests.sim.member import Member

Share = frozenset[TopicPartition]


class Reader(Protocol):
    """What is compared of a member with the coordinator's view."""

    member_id: str

    @property
    def generation_id(self) -> int: ...

    @property
    def assignment(self) -> Share | None: ...


def classic_group_problems(
    group: DescribedGroup, living: Sequence[Reader], wanted: Collection[TopicPartition]
) -> Iterator[str]:
    """Why a classic group is not settled: its members subscribe to all that is wanted."""
    members = group.members if group.group_state == "Stable" else []  # In a rebalance they have no assignment yet.
    shares = {member.member_id: assigned(bytes(member.member_assignment)) for member in members}
    yield from _problems(group.group_id, group.group_state, shares, living, wanted)
    for member in living if group.group_state == "Stable" else ():
        if isinstance(member, Member) and member.is_about_to_look:
            yield f"{member.member_id} of {group.group_id} does not know yet whether that is all"


def consumer_group_problems(
    group: consumer_group_describe.DescribedGroup, living: Sequence[Reader], wanted: Collection[TopicPartition]
) -> Iterator[str]:
    """Why a group of KIP-848 is not settled."""
    shares = {member.member_id: _share(member) for member in group.members}
    yield from _problems(group.group_id, group.group_state, shares, living, wanted)
    for member in living if group.group_state == "Stable" else ():
        if member.generation_id != group.group_epoch:
            yield f"{member.member_id} of {group.group_id} is in epoch {member.generation_id} of {group.group_epoch}"


def _problems(
    name: str, state: str, shares: Mapping[str, Share], living: Sequence[Reader], wanted: Collection[TopicPartition]
) -> Iterator[str]:
    if not living:
        if state not in ("Empty", "Dead"):
            yield f"{name} has no members, and is {state}"
        return
    if state != "Stable":
        yield f"{name} is {state}"
        return
    owned = collections.Counter(partition for share in shares.values() for partition in share)
    if owned != dict.fromkeys(wanted, 1):
        yield f"of {name}, {sorted(owned.items())} are owned, of {sorted(wanted)}"
    for member in living:
        if member.assignment is None or shares.get(member.member_id) != member.assignment:
            yield f"{member.member_id} of {name} has {member.assignment}, and the broker says {shares}"
    if len(shares) != len(living):
        yield f"{name} has {len(shares)} members, and {len(living)} are alive"


def _share(member: consumer_group_describe.Member) -> Share:
    rows = member.assignment.topic_partitions
    return frozenset(TopicPartition(row.topic_name, number) for row in rows for number in row.partitions)
