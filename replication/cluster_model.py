"""The cluster as the controller and its brokers model it: brokers, topics, partition states, and the three commands.

Frozen and comparable values; nothing here decides. Their znode form is in `metadata_store/znodes.py`, their wire form
in the broker's `control` and `handlers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.system.named_tuple import NamedTuple

Key = TypeVar("Key")
Value = TypeVar("Value")

EPOCH_DURING_DELETION = LeaderEpoch(-2)
"""In a StopReplica: the topic is being deleted, so the receiver does not compare leader epochs."""


def frozen(mapping: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """A mapping that refuses assignment, for default values and for values that outlive their builder."""
    return MappingProxyType(mapping) if isinstance(mapping, dict) else mapping


class BrokerEndpoint(NamedTuple):
    """The advertised address of one listener of a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class Broker(NamedTuple):
    """A registered broker; `epoch` is the transaction that created its node, so each incarnation has its own."""

    broker_id: BrokerId
    epoch: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    is_exclusive: bool = False
    """Registered with `sordini.cluster.exclusive`: it supports transaction.version 2."""
    rule_endpoints: tuple[BrokerEndpoint, ...] = ()
    """Its addresses by rule (`sordini.advertised.listeners.rules`). Controllers do not distribute them."""


class TopicAssignment(NamedTuple):
    """The content of /brokers/topics/T: the replicas of each partition. `version` is that of the node."""

    name: str
    replicas: Mapping[int, tuple[BrokerId, ...]]
    topic_id: TopicId = NO_TOPIC_ID
    adding: Mapping[int, tuple[BrokerId, ...]] = frozen({})
    removing: Mapping[int, tuple[BrokerId, ...]] = frozen({})
    version: int = 0

    def is_reassigning(self, partition: int) -> bool:
        """Whether a reassignment of the partition is ongoing (KIP-455)."""
        return bool(self.adding.get(partition) or self.removing.get(partition))

    def origin_replicas(self, partition: int) -> tuple[BrokerId, ...]:
        """The replicas without those that an ongoing reassignment adds."""
        adding = self.adding.get(partition, ())
        return tuple(replica for replica in self.replicas[partition] if replica not in adding)

    def target_replicas(self, partition: int) -> tuple[BrokerId, ...]:
        """The replicas without those that an ongoing reassignment removes."""
        removing = self.removing.get(partition, ())
        return tuple(replica for replica in self.replicas[partition] if replica not in removing)


class ReplicaAssignment(NamedTuple):
    """One partition's assignment: all its replicas, and those of them that a reassignment adds and removes."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class ZkReassignments(NamedTuple):
    """The incomplete reassignments of /admin/reassign_partitions. `version` is that of the node."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
    version: int


class PartitionState(NamedTuple):
    """A partition's leader and ISR; `controller_epoch` is that of the controller that decided it."""

    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    recovering: bool = False
    """The leader was not in sync when it was elected, and has not recovered yet (KIP-704)."""


class KnownState(NamedTuple):
    """A partition's state with the version of its node, which is the partition epoch on the wire."""

    state: PartitionState
    version: int


class PartitionInfo(NamedTuple):
    """One partition as a command carries it."""

    topic_partition: TopicPartition
    topic_id: TopicId
    replicas: tuple[BrokerId, ...]
    state: PartitionState
    partition_epoch: int
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    offline_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False
    """Just created: its replicas may be created even while a log directory of the receiver is offline."""


class Replica(NamedTuple):
    """One replica of a partition."""

    broker_id: BrokerId
    topic_partition: TopicPartition


class DeletedPartition(NamedTuple):
    """A partition that brokers remove from their metadata (leader -2 on the wire)."""

    topic_partition: TopicPartition
    topic_id: TopicId


class StoppedReplica(NamedTuple):
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


class LeaderAndIsr(NamedTuple):
    """Become leader or follower of these; sent only to brokers with a replica."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[PartitionInfo, ...]
    live_leaders: tuple[Broker, ...]
    is_survey: bool = False
    """Sent to find out which replicas are offline (see `log_directories`). Known to the controller, not on the wire."""


class UpdateMetadata(NamedTuple):
    """The metadata for clients. Partitions are changes to those sent before, live brokers replace them."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    live_brokers: tuple[Broker, ...]
    partitions: tuple[PartitionInfo, ...] = ()
    deleted: tuple[DeletedPartition, ...] = ()


class StopReplica(NamedTuple):
    """Stop serving and fetching these, and remove the data of those marked `delete`."""

    controller_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StoppedReplica, ...]


Command = LeaderAndIsr | UpdateMetadata | StopReplica


class CommandAnswer(NamedTuple):
    """A broker's answer to a command: error codes, 0 being success. Partitions not named succeeded."""

    error: int = 0
    partitions: Mapping[TopicPartition, int] = frozen({})


class TopicState(NamedTuple):
    """A topic as the controller knows it: the assignment, and the states of the partitions that have one."""

    assignment: TopicAssignment
    states: Mapping[int, KnownState]


class Deletion(NamedTuple):
    """The progress of a topic's deletion, which is complete when both sets are empty."""

    pending: frozenset[tuple[BrokerId, int]]
    """Replicas whose deletion was commanded, as (broker, partition)."""
    blocked: frozenset[tuple[BrokerId, int]]
    """Replicas on brokers that are not live or failed to delete them; repeated when the broker registers again."""


class ClusterSettings(NamedTuple):
    """Settings that all brokers of a cluster must have in common."""

    inter_broker_listener: str | None = None
    """inter.broker.listener.name; a broker without that listener is not one of the cluster. None: any."""
    uses_topic_ids: bool = True
    """inter.broker.protocol.version is 2.8 or later: topics have ids, in their nodes and on the wire (KIP-516)."""
    feature_version: int = 2
    """The version of /feature: 1 for inter.broker.protocol.version 2.7 to 3.2, 2 from 3.3 on (KIP-584, KIP-778)."""
    marks_recovery: bool = True
    """inter.broker.protocol.version is 3.2 or later: an unclean leader is marked as recovering (KIP-704)."""
    deletes_topics: bool = True
    """delete.topic.enable: otherwise a request to delete a topic is dropped."""
    is_exclusive: bool = False
    """sordini.cluster.exclusive: transaction.version 2 is finalized in /feature, so that no broker joins without it."""


DEFAULT_CLUSTER_SETTINGS = ClusterSettings()
"""Those of inter.broker.protocol.version 3.3 and later, on any listener."""


class ClusterState(NamedTuple):
    """The state of the controller's machine: the cluster as the active controller knows it."""

    controller_id: BrokerId
    epoch: int
    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, TopicState]
    deletions: Mapping[str, Deletion] = frozen({})
    shutting_down: frozenset[BrokerId] = frozenset()
    """Brokers in controlled shutdown: registered, but not eligible to lead or to join an ISR."""
    offline: frozenset[Replica] = frozenset()
    """Replicas of live brokers in failed log directories."""
    cluster_settings: ClusterSettings = DEFAULT_CLUSTER_SETTINGS
    zk_reassignments: ZkReassignments | None = None
    """Reassignments that a tool requested by a node of the store; None when there is no such node."""

    def electable(self, topic_partition: TopicPartition) -> frozenset[BrokerId]:
        """Brokers whose own condition allows them to lead the partition or to join its ISR."""
        return frozenset(
            broker
            for broker in self.brokers
            if broker not in self.shutting_down and Replica(broker, topic_partition) not in self.offline
        )


class Malformed(NamedTuple):
    """A node that cannot be decoded: it is skipped and logged, never a reason to fail."""

    path: str
    reason: str
