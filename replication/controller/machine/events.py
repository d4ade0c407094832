"""What happens to the controller's machine, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    DEFAULT_CLUSTER_SETTINGS,
    Answer,
    Broker,
    ClusterSettings,
    Command,
    KnownState,
    PartitionState,
    TopicAssignment,
    ZkReassignments,
)
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.metadata_store.znodes import ProducerIdBlock
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
    cluster_settings: ClusterSettings = DEFAULT_CLUSTER_SETTINGS


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
class CommandAnswered:
    """A broker answered a command."""

    broker_id: BrokerId
    command: Command
    answer: Answer


@dataclass(frozen=True, slots=True)
class ElectionsRequested:
    """Somebody asks for elections of these partitions."""

    election: ElectionType
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ZkElectionsRead:
    """What /admin/preferred_replica_election holds: partitions that their preferred replicas shall lead.

    `version` is that node's, which goes when it is done.
    """

    partitions: tuple[TopicPartition, ...]
    version: int


@dataclass(frozen=True, slots=True)
class LeaderRebalanceDue:
    """Where a broker leads so many per cent fewer partitions than prefer it, it shall lead them again."""

    percentage: int


@dataclass(frozen=True, slots=True)
class UncleanSettingsRead:
    """Whether a replica that is not in sync may lead these partitions: yes where the topic is one of `allowed`."""

    partitions: tuple[TopicPartition, ...]
    allowed: frozenset[str]


@dataclass(frozen=True, slots=True)
class ZkReassignmentsRead:
    """What /admin/reassign_partitions holds now; None when there is no such node."""

    noted: ZkReassignments | None


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """Somebody asks that partitions have these replicas; None is to undo the move under way."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


class IsrChange(NamedTuple):
    """What a leader asks for one partition: the in-sync set that shall take the place of the one it knows.

    The topic is named (AlterPartition v0, v1) or told by its id (from v2 on).
    """

    partition: int
    isr: tuple[BrokerId, ...]
    leader_epoch: int
    partition_epoch: int
    topic: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    broker_epochs: tuple[int, ...] = ()
    """In which life the leader saw each of `isr`, -1 where it does not say; empty when it says so of none (KIP-903)."""
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class IsrChangesRequested:
    """A leader asks for other in-sync sets (AlterPartition). Each change, or the whole, gets a `Reply`."""

    broker_id: BrokerId
    broker_epoch: int
    changes: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True)
class StatesRead:
    """States were read again; `notes` are the nodes that asked for that, to be removed."""

    states: Mapping[TopicPartition, KnownState]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """A broker is about to stop and wants its leaderships taken over; without an epoch it is not checked."""

    broker_id: BrokerId
    broker_epoch: int | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRequested:
    """A broker asks for producer ids. `last` is the block taken last, from a node of that version."""

    broker_id: BrokerId
    broker_epoch: int
    last: ProducerIdBlock | None
    version: int


@dataclass(frozen=True, slots=True)
class LogDirsFailed:
    """These brokers say that a log directory of theirs failed; `notes` are the nodes that say so, to be removed."""

    brokers: frozenset[BrokerId]
    notes: tuple[str, ...]


# Writes, and what became of them.


class Step(Enum):
    """What a state is written for in the course of a move (see `moves`)."""

    ROOM = "who is no longer wanted is out of the in-sync set; the assignment is next"
    BEGUN = "brokers hear of all replicas"
    LED = "a replica that stays leads"
    DROPPED = "only replicas that stay are in sync"


class NewState(NamedTuple):
    """The write puts a partition into this state; `first` when it had none."""

    topic_partition: TopicPartition
    state: PartitionState
    first: bool
    step: Step | None = None
    target: tuple[BrokerId, ...] = ()
    """Of `Step.ROOM`: the replicas that are wanted."""


class TopicRemoved(NamedTuple):
    """The write removes the last node of a deleted topic but for the mark that asks for its deletion."""

    topic: str


class DeletionMarkRemoved(NamedTuple):
    """The write removes the mark: the deletion is over."""

    topic: str


class NewAssignment(NamedTuple):
    """The write begins the moves of some partitions of a topic and ends those of others: `assignment` says how."""

    assignment: TopicAssignment
    begun: tuple[int, ...]
    ended: tuple[int, ...]


class RemainingZkReassignments(NamedTuple):
    """The write leaves these moves in /admin/reassign_partitions."""

    noted: ZkReassignments


class NewIsr(NamedTuple):
    """The write gives a partition another in-sync set at its leader's wish, in the same leader epoch."""

    topic_partition: TopicPartition
    state: PartitionState
    change: IsrChange


class NewProducerIdBlock(NamedTuple):
    """The write takes a block of producer ids."""

    block: ProducerIdBlock


class Routine(NamedTuple):
    """Nothing hangs on the write; that the node is there (or gone) already is fine."""


Purpose = (
    NewState
    | NewIsr
    | TopicRemoved
    | DeletionMarkRemoved
    | NewAssignment
    | RemainingZkReassignments
    | NewProducerIdBlock
    | Routine
)


class Write(NamedTuple):
    """One write, carried out under the condition that no other controller has been elected."""

    operation: Create | Set | Delete
    purpose: Purpose = Routine()


class Done(NamedTuple):
    """The node is as the write wanted it, with this version (0 for one that was deleted)."""

    version: int


class Conflict(NamedTuple):
    """A NewState or NewIsr met another state, or none (`current` is None: no such node, or nowhere to put it)."""

    current: KnownState | None


class WriteRefused(NamedTuple):
    """The store would not do it."""

    reason: str


Outcome = Done | Conflict | WriteRefused


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
    | CommandAnswered
    | Wrote
    | ElectionsRequested
    | ZkElectionsRead
    | LeaderRebalanceDue
    | UncleanSettingsRead
    | ZkReassignmentsRead
    | ReassignmentsRequested
    | IsrChangesRequested
    | StatesRead
    | ShutdownRequested
    | ProducerIdsRequested
    | LogDirsFailed
)


# Actions, to be carried out in the order in which they are given.


class Send(NamedTuple):
    broker_id: BrokerId
    command: Command


class WriteAll(NamedTuple):
    """Do these in order, then feed the machine one `Wrote` with all outcomes before any other event."""

    writes: tuple[Write, ...]


class ReadStates(NamedTuple):
    """Read these states and feed the machine one `StatesRead`: somebody knows a newer one than the controller."""

    partitions: tuple[TopicPartition, ...]


class ReadUncleanSettings(NamedTuple):
    """Find out whether unclean elections are allowed for these, and feed the machine one `UncleanSettingsRead`.

    None of their in-sync sets is there, and somebody else is.
    """

    partitions: tuple[TopicPartition, ...]


class Reply(NamedTuple):
    """A part of the answer to the event from which all this follows.

    Of a change: the state that is in the store, or why it will not be. `change` None: the whole is refused, or what
    was asked for is this block.
    """

    change: IsrChange | None
    verdict: KnownState | ProducerIdBlock | ErrorCode


Action = Send | WriteAll | ReadStates | ReadUncleanSettings | Reply
