"""A share group at a time (KIP-932): its members, where its partitions begin, and which records are in flight. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sordini.admin.shares.in_flight import InFlightPartition
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple
from sordini.testing.group_state import DEAD


class ShareMember(NamedTuple):
    """One member."""

    id: str
    client_id: str
    epoch: int
    assigned: tuple[TopicPartition, ...]
    """What it may read, together with others."""


class ShareGroupState(NamedTuple):
    """A share group. One that does not exist is `Dead`."""

    name: str
    state: str
    """As Apache Kafka names it: `Stable`, `Empty`."""
    epoch: int | None
    assignment_epoch: int | None
    assignor: str
    members: tuple[ShareMember, ...]


class SharePartitionOffsets(NamedTuple):
    """One partition of a share group."""

    start: int | None
    """The first offset that is not done; None until it is decided."""
    lag: int | None
    """How many records from there on are not done."""


class InFlightRecord(NamedTuple):
    """One record that was delivered and is not done, or is done behind one that is not."""

    topic: str
    partition: int
    offset: int
    state: str
    """`available`, `acquired`, `acknowledged`, `archiving` or `archived`."""
    deliveries: int
    member_id: str | None
    """Of an acquired one."""
    lock_left_ms: int | None


def share_group(found: Any) -> ShareGroupState:
    """A group of ShareGroupDescribe."""
    members = tuple(
        ShareMember(
            member.member_id,
            member.client_id,
            member.member_epoch,
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, index)
                    for topic in member.assignment.topic_partitions
                    for index in topic.partitions
                )
            ),
        )
        for member in found.members
    )
    return ShareGroupState(
        found.group_id, found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name, members
    )


def share_group_that_is_not_there(name: str) -> ShareGroupState:
    return ShareGroupState(name, DEAD, None, None, "", ())


def records_in(found: InFlightPartition) -> Iterator[InFlightRecord]:
    """The records of a partition's runs."""
    for run in found.runs:
        for offset in range(run.first_offset, run.last_offset + 1):
            yield InFlightRecord(*found.partition, offset, run.state, run.deliveries, run.member_id, run.lock_left_ms)
