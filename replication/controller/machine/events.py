"""Events and actions of the controller's machine, and the writes with their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    DEFAULT_CLUSTER_SETTINGS,
    Broker,
    ClusterSettings,
    Command,
    CommandAnswer,
    KnownState,
    PartitionState,
    TopicAssignment,
    ZkReassignments,
)
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import Create, Delete, Set
from sordini.system.named_tuple import NamedTuple

# Events. Nodes of the store that cannot be decoded are left out.


class Elected(NamedTuple):
    """The broker was elected controller, or still is after a reconnect; everything was read again."""

    controller_id: BrokerId
    epoch: int
    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, TopicAssignment]
    states: Mapping[TopicPartition, KnownState]
    deletions: frozenset[str] = frozenset()
    housekeeping: tuple[Create | Set | Delete, ...] = ()
    """Writes of a new term that need no decision: /feature, and the deletion of outdated notifications."""
    fresh_ids: Mapping[str, TopicId] | None = None
    """Ids for the topics without one (created by brokers older than KIP-516)."""
    cluster_settings: ClusterSettings = DEFAULT_CLUSTER_SETTINGS


class BrokersChanged(NamedTuple):
    """All brokers that are registered now."""

    brokers: Mapping[BrokerId, Broker]


class TopicsListed(NamedTuple):
    """All topics that exist now, with the assignments of those that were not known."""

    names: frozenset[str]
    read: Mapping[str, TopicAssignment]
    fresh_ids: Mapping[str, TopicId] | None = None


class TopicChanged(NamedTuple):
    """A topic's assignment was written: by this controller, by a tool, or to add partitions."""

    assignment: TopicAssignment


class DeletionsListed(NamedTuple):
    """All topics whose deletion is requested."""

    names: frozenset[str]


class CommandAnswered(NamedTuple):
    """A broker answered a command."""

    broker_id: BrokerId
    command: Command
    answer: CommandAnswer


class ElectionsRequested(NamedTuple):
    """An administrator requests elections of these partitions."""

    election: ElectionType
    partitions: tuple[TopicPartition, ...]


class ZkElectionsRead(NamedTuple):
    """The content of /admin/preferred_replica_election: partitions whose preferred replicas are to be elected.

    `version` is that of the node, which is deleted afterwards.
    """

    partitions: tuple[TopicPartition, ...]
    version: int


class LeaderRebalanceDue(NamedTuple):
    """Rebalance brokers that do not lead more than `percentage` per cent of the partitions that prefer them."""

    percentage: int


class UncleanSettingsRead(NamedTuple):
    """The settings that `ReadUncleanSettings` requested: the topics in `allowed` allow unclean elections."""

    partitions: tuple[TopicPartition, ...]
    allowed: frozenset[str]


class ZkReassignmentsRead(NamedTuple):
    """The content of /admin/reassign_partitions; None when there is no such node."""

    node: ZkReassignments | None


class ReassignmentsRequested(NamedTuple):
    """An administrator requests these replicas for partitions; None cancels the ongoing reassignment."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


class IsrChange(NamedTuple):
    """A leader's request for one partition: a new ISR in place of the one it knows.

    The topic is identified by name (AlterPartition v0, v1) or by id (from v2 on).
    """

    partition: int
    isr: tuple[BrokerId, ...]
    leader_epoch: int
    partition_epoch: int
    topic: str = ""
    topic_id: TopicId = NO_TOPIC_ID
    broker_epochs: tuple[int, ...] = ()
    """The broker epochs of `isr` as the leader knows them, -1 for an unknown one; empty when not sent (KIP-903)."""
    recovering: bool = False


class IsrChangesRequested(NamedTuple):
    """A leader requests ISR changes (AlterPartition). Each change, or the whole request, gets a `ControllerReply`."""

    broker_id: BrokerId
    broker_epoch: int
    changes: tuple[IsrChange, ...]


class StatesRead(NamedTuple):
    """States were read again; `notifications` are the nodes that led to this, to be deleted."""

    states: Mapping[TopicPartition, KnownState]
    notifications: tuple[str, ...] = ()


class ShutdownRequested(NamedTuple):
    """A broker requests a controlled shutdown; without a broker epoch the epoch is not checked."""

    broker_id: BrokerId
    broker_epoch: int | None


class ProducerIdsRequested(NamedTuple):
    """A broker requests producer ids. `last` is the last allocated block, from a node of that version."""

    broker_id: BrokerId
    broker_epoch: int
    last: ProducerIdBlock | None
    version: int


class LogDirsFailed(NamedTuple):
    """Log directories of these brokers failed; `notifications` are the nodes that report it, to be deleted."""

    brokers: frozenset[BrokerId]
    notifications: tuple[str, ...]


# Writes and their outcomes.


class ReassignmentStep(Enum):
    """The step of a reassignment for which a state is written (see `reassignment`)."""

    UNNEEDED_DROPPED = "replicas that the new target does not need are out of the ISR; the assignment is next"
    STARTED = "brokers are sent all replicas"
    LEADER_MOVED = "a target replica leads"
    ISR_SHRUNK = "only target replicas are in sync"


class NewState(NamedTuple):
    """The write gives a partition this state; `first` when it had none."""

    topic_partition: TopicPartition
    state: PartitionState
    first: bool
    step: ReassignmentStep | None = None
    target: tuple[BrokerId, ...] = ()
    """With `UNNEEDED_DROPPED`: the new target."""


class TopicRemoved(NamedTuple):
    """The write deletes the last node of a topic except the request for its deletion."""

    topic: str


class DeletionMarkRemoved(NamedTuple):
    """The write deletes the request for a topic's deletion, which is complete."""

    topic: str


class NewAssignment(NamedTuple):
    """The write begins the reassignment of some partitions of a topic and completes that of others."""

    assignment: TopicAssignment
    begun: tuple[int, ...]
    ended: tuple[int, ...]


class RemainingZkReassignments(NamedTuple):
    """The write leaves these reassignments in /admin/reassign_partitions."""

    node: ZkReassignments


class NewIsr(NamedTuple):
    """The write gives a partition the ISR that its leader requests, in the same leader epoch."""

    topic_partition: TopicPartition
    state: PartitionState
    change: IsrChange


class NewProducerIdBlock(NamedTuple):
    """The write allocates a block of producer ids."""

    block: ProducerIdBlock


class NoFollowUp(NamedTuple):
    """Nothing follows from the write; the node may exist (or be deleted) already."""


Purpose = (
    NewState
    | NewIsr
    | TopicRemoved
    | DeletionMarkRemoved
    | NewAssignment
    | RemainingZkReassignments
    | NewProducerIdBlock
    | NoFollowUp
)


class StoreWrite(NamedTuple):
    """One write, carried out under the condition that no other controller has been elected."""

    operation: Create | Set | Delete
    purpose: Purpose = NoFollowUp()


class Done(NamedTuple):
    """The write took effect and the node has this version (0 for a deleted one)."""

    version: int


class Conflict(NamedTuple):
    """A NewState or NewIsr found another state, or none (`current` is None: no such node, or no parent)."""

    current: KnownState | None


class StoreWriteRefused(NamedTuple):
    """The store refused the write."""

    reason: str


Outcome = Done | Conflict | StoreWriteRefused


class WritesDone(NamedTuple):
    """The outcomes of a batch of writes."""

    outcomes: tuple[tuple[StoreWrite, Outcome], ...]


Event = (
    Elected
    | BrokersChanged
    | TopicsListed
    | TopicChanged
    | DeletionsListed
    | CommandAnswered
    | WritesDone
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


# Actions, carried out in order.


class Send(NamedTuple):
    broker_id: BrokerId
    command: Command


class WriteAll(NamedTuple):
    """Write these in order, then feed the machine one `WritesDone` with all outcomes before any other event."""

    writes: tuple[StoreWrite, ...]


class ReadStates(NamedTuple):
    """Read these states and feed the machine one `StatesRead`: a leader knows newer ones than the controller."""

    partitions: tuple[TopicPartition, ...]


class ReadUncleanSettings(NamedTuple):
    """Read whether unclean elections are allowed for these, and feed the machine one `UncleanSettingsRead`.

    No in-sync replica of them is eligible, and another replica is.
    """

    partitions: tuple[TopicPartition, ...]


class ControllerReply(NamedTuple):
    """A part of the response to the request.

    For a change: the state in the store, or the error code. `change` None: the error code of the whole request, or the
    allocated block.
    """

    change: IsrChange | None
    result: KnownState | ProducerIdBlock | ErrorCode


Action = Send | WriteAll | ReadStates | ReadUncleanSettings | ControllerReply
