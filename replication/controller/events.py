"""What happens to the controller's machine, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sordini.protocol.types import BrokerId, TopicId, TopicPartition
from sordini.replication.controller.cluster import (
    Answer,
    Broker,
    Command,
    KnownState,
    PartitionState,
    TopicAssignment,
)
from sordini.replication.controller.elections import Election
from sordini.replication.ports import Create, Delete, Set

# Events. What was read from the store comes without the nodes that could not be understood.


@dataclass(frozen=True, slots=True)
class Elected:
    """We became the controller, or still are after a broken connection; everything was read anew."""

    controller_id: BrokerId
    epoch: int
    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, TopicAssignment]
    states: Mapping[TopicPartition, KnownState]
    deletions: frozenset[str] = frozenset()
    housekeeping: tuple[Create | Set | Delete, ...] = ()
    """Writes of a new reign that need no decision: /feature, and notifications that the new reading has overtaken."""
    fresh_ids: Mapping[str, TopicId] | None = None
    """Ids drawn for the topics that have none (made by brokers older than KIP-516)."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """All brokers that are registered now."""

    brokers: Mapping[BrokerId, Broker]


@dataclass(frozen=True, slots=True)
class TopicsListed:
    """All topics that exist now, with the assignments of those that were not known."""

    names: frozenset[str]
    read: Mapping[str, TopicAssignment]
    fresh_ids: Mapping[str, TopicId] | None = None


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """A topic's assignment was written: by this controller, by a tool, or to add partitions."""

    assignment: TopicAssignment


@dataclass(frozen=True, slots=True)
class DeletionsListed:
    """All topics that somebody wants deleted."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answered:
    """A broker answered a command."""

    broker_id: BrokerId
    command: Command
    answer: Answer


@dataclass(frozen=True, slots=True)
class ElectionsWanted:
    """Somebody asks for elections of these partitions."""

    election: Election
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MovesWanted:
    """Somebody asks that partitions have these replicas; None is to undo the move under way."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


# Writes, and what became of them.


class NewState(NamedTuple):
    """The write puts a partition into this state; `first` when it had none, `then` the replicas it moves to next."""

    topic_partition: TopicPartition
    state: PartitionState
    first: bool
    then: tuple[BrokerId, ...] | None = None


class TopicGone(NamedTuple):
    """The write removes the last node of a deleted topic but for the mark that asks for its deletion."""

    topic: str


class MarkGone(NamedTuple):
    """The write removes the mark: the deletion is over."""

    topic: str


class Moved(NamedTuple):
    """The write gives these partitions of a topic other replicas: `assignment` is what the node then says."""

    assignment: TopicAssignment
    partitions: tuple[int, ...]


class Routine(NamedTuple):
    """Nothing hangs on the write; that the node is there (or gone) already is fine."""


Purpose = NewState | TopicGone | MarkGone | Moved | Routine


class Write(NamedTuple):
    """One write, carried out under the condition that no other controller has been elected."""

    operation: Create | Set | Delete
    purpose: Purpose = Routine()


class Done(NamedTuple):
    """The node is as the write wanted it, with this version (0 for one that was deleted)."""

    version: int


class Conflict(NamedTuple):
    """A NewState met another state, or none (`current` is None: no such node, or nowhere to put it)."""

    current: KnownState | None


class Refused(NamedTuple):
    """The store would not do it."""

    reason: str


Outcome = Done | Conflict | Refused


@dataclass(frozen=True, slots=True)
class Wrote:
    """What became of a batch of writes, one outcome for each."""

    outcomes: tuple[tuple[Write, Outcome], ...]


Event = (
    Elected
    | BrokersChanged
    | TopicsListed
    | TopicChanged
    | DeletionsListed
    | Answered
    | Wrote
    | ElectionsWanted
    | MovesWanted
)


# Actions, to be carried out in the order in which they are given.


class Send(NamedTuple):
    broker_id: BrokerId
    command: Command


class WriteAll(NamedTuple):
    """Do these in order, then feed the machine one `Wrote` with all outcomes before any other event."""

    writes: tuple[Write, ...]


Action = Send | WriteAll
