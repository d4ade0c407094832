"""The values the controller thinks in: brokers, topics, the state of partitions, and what it commands.

Frozen and comparable; nothing here decides. Wire and znode forms of these values live elsewhere
(`znodes.py`, and the broker's handlers for requests).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition

Key = TypeVar("Key")
Value = TypeVar("Value")

EPOCH_DURING_DELETION = LeaderEpoch(-2)
"""In a StopReplica: the topic is being deleted, so the receiver does not compare leader epochs."""


def frozen(mapping: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """A mapping that refuses assignment, for default values and for values that outlive their builder."""
    return MappingProxyType(mapping) if isinstance(mapping, dict) else mapping


class Endpoint(NamedTuple):
    """Where one listener of a broker is reached from outside."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is registered; `epoch` is the transaction that created its node, so each life has its own."""

    broker_id: BrokerId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """What /brokers/topics/T says: which brokers hold each partition. `version` is that node's."""

    name: str
    replicas: Mapping[int, tuple[BrokerId, ...]]
    topic_id: TopicId = NO_TOPIC_ID
    adding: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=lambda: frozen({}))
    removing: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=lambda: frozen({}))
    version: int = 0

    def is_reassigning(self, partition: int) -> bool:
        """Whether a reassignment of the partition is under way (KIP-455)."""
        return bool(self.adding.get(partition) or self.removing.get(partition))

    def origin_replicas(self, partition: int) -> tuple[BrokerId, ...]:
        """The replicas without those that a move under way adds: what it began with."""
        adding = self.adding.get(partition, ())
        return tuple(replica for replica in self.replicas[partition] if replica not in adding)

    def target_replicas(self, partition: int) -> tuple[BrokerId, ...]:
        """The replicas without those that a move under way removes: what it ends with."""
        removing = self.removing.get(partition, ())
        return tuple(replica for replica in self.replicas[partition] if replica not in removing)


class ReplicaAssignment(NamedTuple):
    """How a topic's node says that a partition is on the move: all that hold it until the end, who comes, who goes."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ZkReassignments:
    """What is left to be done of /admin/reassign_partitions. `version` is that node's."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
    version: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who leads a partition and who is in sync; `controller_epoch` says which controller decided it."""

    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    recovering: bool = False
    """Led by a replica that was not in sync, and not yet recovered from that (KIP-704)."""


class KnownState(NamedTuple):
    """A partition's state with the version of its node, which is the partition epoch on the wire."""

    state: PartitionState
    version: int


class PartitionInfo(NamedTuple):
    """One partition as a command tells it."""

    topic_partition: TopicPartition
    topic_id: TopicId
    replicas: tuple[BrokerId, ...]
    state: PartitionState
    partition_epoch: int
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False
    """Just created: its replicas may be made even while some log directory of the receiver is offline."""


class Replica(NamedTuple):
    """One copy of a partition."""

    broker_id: BrokerId
    topic_partition: TopicPartition


class DeletedPartition(NamedTuple):
    """A partition that brokers must forget (leader -2 on the wire)."""

    topic_partition: TopicPartition
    topic_id: TopicId


class StoppedReplica(NamedTuple):
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """Become leader or follower of these; only sent to brokers that hold them."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[PartitionInfo, ...]
    live_leaders: tuple[Broker, ...]
    is_survey: bool = False
    """Sent because the broker left a note about its log directories. Known to the controller only, not on the wire."""


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """What clients may be told. Partitions are a change to what was told before, live brokers replace it."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    live_brokers: tuple[Broker, ...]
    partitions: tuple[PartitionInfo, ...] = ()
    deleted: tuple[DeletedPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class StopReplica:
    """Stop serving and fetching these, and remove the data of those marked `delete`."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StoppedReplica, ...]


Command = LeaderAndIsr | UpdateMetadata | StopReplica


class Answer(NamedTuple):
    """A broker's answer to a command: error codes, 0 being success. Partitions not named succeeded."""

    error: int = 0
    partitions: Mapping[TopicPartition, int] = frozen({})


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic the controller knows: the assignment, and the states of the partitions that have one."""

    assignment: TopicAssignment
    states: Mapping[int, KnownState]


@dataclass(frozen=True, slots=True)
class Deletion:
    """How far a topic's deletion has come. It is done when nothing is left in either set."""

    pending: frozenset[tuple[BrokerId, int]]
    """Replicas told to delete themselves, as (broker, partition)."""
    blocked: frozenset[tuple[BrokerId, int]]
    """Replicas on brokers that are away or refused; tried again when their broker comes back."""


class ClusterSettings(NamedTuple):
    """What all brokers of a cluster must have in common by their settings."""

    inter_broker_listener: str | None = None
    """The listener by which brokers reach each other; who has no such one is no broker of the cluster. None: any."""
    uses_topic_ids: bool = True
    """inter.broker.protocol.version is 2.8 or later: topics have ids, in their nodes and on the wire (KIP-516)."""
    feature_version: int = 2
    """The version of /feature: 1 for inter.broker.protocol.version 2.7 to 3.2, 2 from 3.3 on (KIP-584, KIP-778)."""
    marks_recovery: bool = True
    """inter.broker.protocol.version is 3.2 or later: an unclean leader is marked as recovering (KIP-704)."""
    deletes_topics: bool = True
    """delete.topic.enable: otherwise a wish to delete a topic is dropped."""


DEFAULT_CLUSTER_SETTINGS = ClusterSettings()
"""Those of inter.broker.protocol.version 3.3 and later, on whatever listener."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All that a reigning controller knows."""

    controller_id: BrokerId
    epoch: int
    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, TopicState]
    deletions: Mapping[str, Deletion] = field(default_factory=lambda: frozen({}))
    shutting_down: frozenset[BrokerId] = frozenset()
    """Brokers that are about to leave: alive, and no longer to lead or to be in sync."""
    offline: frozenset[Replica] = frozenset()
    """Replicas of living brokers that lie in log directories that failed."""
    cluster_settings: ClusterSettings = DEFAULT_CLUSTER_SETTINGS
    zk_reassignments: ZkReassignments | None = None
    """Moves that a tool asked for by a node of the store; None when there is no such node."""

    def electable(self, topic_partition: TopicPartition) -> frozenset[BrokerId]:
        """Brokers that may lead a partition, as far as they themselves are concerned, or join its in-sync set."""
        return frozenset(
            broker
            for broker in self.brokers
            if broker not in self.shutting_down and Replica(broker, topic_partition) not in self.offline
        )


class Malformed(NamedTuple):
    """A node that cannot be understood: it is skipped and reported, never a reason to fail."""

    path: str
    reason: str
