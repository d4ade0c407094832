"""The partitions with a replica on this broker, and how the controller's commands change them.

Handlers look partitions up here, by name or by topic id. A partition of another broker and one that does not exist are
different errors, since clients react differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import EPOCH_DURING_DELETION, PartitionInfo
from sordini.replication.leader import Term
from sordini.replication.partition import KnownLeader, Partition
from sordini.replication.partition_deps import NO_PEERS, IsrChangeCounts, PartitionSettings, Peers
from sordini.replication.ports import Logger
from sordini.replication.refused_batches import RefusedBatches
from sordini.replication.state_change_log import RoleLog
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.log_manager import LogManager
from sordini.system.named_tuple import NamedTuple

NO_LEADER = BrokerId(-1)
"""The leader of a partition that has none."""

Exists = Callable[[str, int], bool]
NameOf = Callable[[TopicId], str | None]


class LeadershipListener(Protocol):
    """A component that follows the leadership of partitions, such as a coordinator."""

    def became_leader(self, partition: Partition) -> None:
        """Leadership of the partition began; also called for a new leader epoch of a partition that it led before."""

    def resigned(self, partition: Partition) -> None:
        """Leadership of the partition ended; also called for a partition that this broker did not lead."""


class FetcherManager(Protocol):
    """Fetches the partitions that this broker follows."""

    def add_partition(self, partition: Partition) -> None:
        """Fetch this partition from its leader (`partition.follower`)."""

    def remove_partition(self, partition: Partition) -> None:
        """Stop fetching this partition, if it is fetched."""


class NoFetchers:
    """For a broker without peers."""

    def add_partition(self, partition: Partition) -> None:
        """Does nothing."""

    def remove_partition(self, partition: Partition) -> None:
        """Does nothing."""


class ReplicaSetDeps(NamedTuple):
    """What a `ReplicaSet` needs beside the logs."""

    settings_of: Callable[[str], PartitionSettings]
    exists: Exists
    """Whether the cluster has a partition, on any broker."""
    name_of: NameOf
    now_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    log: Logger
    fetchers: FetcherManager = NoFetchers()
    peers: Peers = NO_PEERS
    truncates_before_fetch: bool = False
    """By OffsetForLeaderEpoch: inter.broker.protocol.version is older than Fetch version 12."""


class ReplicaSet:
    """All partitions with a replica on this broker."""

    def __init__(self, broker_id: BrokerId, logs: LogManager, deps: ReplicaSetDeps) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._deps = deps
        self._role_log = RoleLog(deps.log)
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[TopicId, int], Partition] = {}
        self._offline: set[tuple[str, int]] = set()
        """Partitions whose log directory failed, or was missing at the start."""
        self._is_stopping = False
        self.leadership_listeners: list[LeadershipListener] = []
        self.refused_batches = RefusedBatches()
        """Of producers; kept here, as a partition may not be known yet when its first batch is refused."""

    @property
    def isr_changes(self) -> IsrChangeCounts:
        """How often in-sync sets of led partitions have changed."""
        return self._deps.peers.counts or IsrChangeCounts()

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker has a replica."""
        return self._partitions.get((topic, index))

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition | None:
        """As `get`, by the topic's id."""
        return self._by_id.get((topic_id, index))

    def partition(self, topic: str, index: int) -> Partition:
        """The partition.

        Raises BrokerError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR when it is in a log directory that is
        offline, NOT_LEADER_OR_FOLLOWER when it is on another broker.
        """
        partition = self._partitions.get((topic, index))
        if partition is None or partition.leader is None:
            if partition is not None and self._deps.exists(topic, index):
                return partition
            if (topic, index) in self._offline:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is in a log directory that failed")
            if self._deps.exists(topic, index):
                raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on this broker")
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        return partition

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """As `partition`, by the topic's id; raises BrokerError UNKNOWN_TOPIC_ID, too (KIP-516)."""
        partition = self._by_id.get((topic_id, index))
        if partition is not None and partition.leader is not None:
            return partition
        topic = self._deps.name_of(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
        return self.partition(topic, index)

    def has_log(self, name: TopicPartition) -> bool:
        """Whether this broker has a log of that partition, in use or not."""
        return self._logs.get(name) is not None

    async def finish_deletions(self, names: Iterable[TopicPartition]) -> None:
        """Before logs are created: remove what is left on the disk of deleted logs of the same names."""
        await self._logs.forget_deleted([name for name in names if self._logs.get(name) is None])

    def become_leader_or_follower(self, info: PartitionInfo) -> None:
        """Begin the term of a LeaderAndIsr, and create the log if there is none. `log_role_changes` is due after that.

        Raises StorageError, and BrokerError: UNKNOWN_TOPIC_OR_PARTITION for one that is not assigned to this broker,
        STALE_CONTROLLER_EPOCH for an epoch that is not newer, FENCED_LEADER_EPOCH for one that is older than the term
        in which this broker leads or, unless it follows, than the last epoch of its log, INCONSISTENT_TOPIC_ID for a
        log of another topic, INVALID_REQUEST to lead from outside of the in-sync set, KAFKA_STORAGE_ERROR for a log
        that is missing while a directory is offline, unless the partition is new.
        """
        name, state = info.topic_partition, info.state
        if self._broker_id not in info.replicas:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker is not assigned a replica of {name}")
        if state.leader == self._broker_id and state.leader not in state.isr:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"a leader of {name} that is not in its in-sync set")
        partition = self._partitions.get(name)
        if partition is not None and state.leader_epoch <= partition.leader_epoch:
            if state.leader_epoch == partition.leader_epoch and self._is_given_id(partition, info.topic_id):
                return
            if partition.leader is not None and state.leader_epoch < partition.leader_epoch:
                raise _restored_epoch_error(name, state.leader_epoch, partition.leader_epoch)
            if partition.follower is None:
                _check_epoch(partition.log, state.leader_epoch)
            # A follower's log is not compared: its leader has all that was committed.
            raise BrokerError(ErrorCode.STALE_CONTROLLER_EPOCH, f"{name} is past leader epoch {state.leader_epoch}")
        if partition is None:
            partition = self._open(name, info.topic_id, state.leader_epoch, is_new=info.is_new)
        else:
            self._check_id(partition.log, info.topic_id)
            self._index_by_id(partition)
        term = Term(state.leader_epoch, state.isr, info.replicas, info.partition_epoch)
        if state.leader == self._broker_id:
            self._lead(partition, term)
        else:
            self._follow(partition, NO_LEADER if state.leader is None else state.leader, term)

    def _lead(self, partition: Partition, term: Term) -> None:
        self._deps.fetchers.remove_partition(partition)
        partition.become_leader(self._broker_id, term, self._deps.monotonic_ms())
        self._role_log.became_leader(partition.name, term.leader_epoch, term.isr)
        for listener in self.leadership_listeners:
            listener.became_leader(partition)

    def _follow(self, partition: Partition, leader_id: BrokerId, term: Term) -> None:
        if partition.follower is not None:
            self._deps.fetchers.remove_partition(partition)
        else:
            self._resign(partition, KnownLeader(leader_id, term.leader_epoch))
        partition.become_follower(leader_id, term, truncates_before_fetch=self._deps.truncates_before_fetch)
        self._role_log.became_follower(partition.name, term.leader_epoch, leader_id)
        would_join_isr = self._is_stopping and self._broker_id not in term.isr
        if leader_id != NO_LEADER and not would_join_isr:
            self._deps.fetchers.add_partition(partition)

    def _open(self, name: TopicPartition, topic_id: TopicId, leader_epoch: LeaderEpoch, *, is_new: bool) -> Partition:
        settings = self._deps.settings_of(name.topic)
        log = self._logs.get(name)
        if log is None:
            offline = self._logs.offline_directories
            if offline and not is_new:
                # Its records are probably there: an empty log elsewhere would lose them.
                self._offline.add(name)
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} may be in {', '.join(offline)}")
            log = self._logs.create(name, topic_id, settings.log)
        elif log.log_dir.failure is not None:
            # By this error the controller learns which replicas are offline (KIP-112).
            self._offline.add(name)
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} is in {log.log_dir.path}, which failed")
        else:
            self._check_id(log, topic_id)
            _check_epoch(log, leader_epoch)
            log.config = settings.log
        self._offline.discard(name)
        partition = self._partitions[name] = Partition(name, topic_id, log, settings, self._deps.peers)
        self._index_by_id(partition)
        return partition

    def _check_id(self, log: Log, topic_id: TopicId) -> None:
        """A log belongs to one topic; if it has no id yet, it gets this one."""
        if topic_id in (NO_TOPIC_ID, log.topic_id):
            return
        if log.topic_id != NO_TOPIC_ID:
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {log.topic_partition} belongs to another topic id"
            )
        log.set_topic_id(topic_id)

    def _is_given_id(self, partition: Partition, topic_id: TopicId) -> bool:
        """Whether a topic that had no id was given one, by a controller of a newer protocol (KIP-516)."""
        if partition.log.topic_id != NO_TOPIC_ID or topic_id == NO_TOPIC_ID:
            return False
        self._check_id(partition.log, topic_id)
        self._index_by_id(partition)
        return True

    def _index_by_id(self, partition: Partition) -> None:
        """Index a partition by its topic's id; topics of old protocols have none."""
        topic_id = partition.topic_id = partition.log.topic_id
        if topic_id != NO_TOPIC_ID:
            self._by_id[topic_id, partition.name.partition] = partition

    def _forget(self, name: tuple[str, int]) -> None:
        partition = self._partitions.pop(name, None)
        if partition is not None:
            self._by_id.pop((partition.topic_id, partition.name.partition), None)
            self._resign(partition)

    def _resign(self, partition: Partition, successor: KnownLeader | None = None) -> None:
        self._deps.fetchers.remove_partition(partition)
        partition.resign(successor)
        for listener in self.leadership_listeners:
            listener.resigned(partition)

    def resign_if_superseded(self, info: PartitionInfo) -> None:
        """Resign where an UpdateMetadata names another leader in a newer leader epoch.

        Usually a LeaderAndIsr does that, but none is sent for a partition that was reassigned to other brokers while
        this one was not registered. The old leader epoch is kept, so any newer term can begin.
        """
        partition, state = self._partitions.get(info.topic_partition), info.state
        if partition is None or partition.leader is None or state.leader_epoch <= partition.leader_epoch:
            return
        if state.leader not in (None, self._broker_id):
            self._resign(partition)

    def stop_replica(self, name: TopicPartition, *, leader_epoch: int = EPOCH_DURING_DELETION, delete: bool) -> None:
        """Stop serving and fetching a partition, if it is here, and with `delete` delete its log.

        Raises BrokerError FENCED_LEADER_EPOCH for an epoch that is over (-1 and -2 are not compared: KIP-570).
        """
        partition = self._partitions.get(name)
        if partition is not None and 0 <= leader_epoch < partition.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"{name} is in epoch {partition.leader_epoch}")
        if partition is not None and not delete:
            self._resign(partition)  # The epoch is kept: a late LeaderAndIsr is still too old.
            return
        self._forget(name)
        self._offline.discard(name)
        if delete and self._logs.get(name) is not None:
            self._logs.delete(name, self._deps.now_ms())

    # All partitions.

    def log_role_changes(self) -> None:
        """Log which partitions became leader or follower; due at the end of each LeaderAndIsr."""
        self._role_log.write()

    def maybe_shrink_isr(self) -> None:
        """Propose to remove lagging followers from in-sync sets.

        Due every half of `replica.lag.time.max.ms`, and when brokers have failed.
        """
        now_ms = self._deps.monotonic_ms()
        for partition in list(self._partitions.values()):
            partition.maybe_shrink_isr(now_ms)

    def clear_isr_refusals(self) -> None:
        """Brokers registered or failed, or the controller changed: refused followers may be proposed again."""
        for partition in self._partitions.values():
            if partition.leader is not None:
                partition.leader.clear_refusals()

    def stop_joining_isr(self) -> None:
        """Before a controlled shutdown: do not start to fetch partitions where this broker is not in sync.

        A leader proposes each follower that has caught up. A controller of Apache Kafka 2.7 grants that; one of 3.9
        refuses it, below AlterPartition v2 with an error code after which leaders of 2.7 change the set no more.
        """
        self._is_stopping = True

    def reconfigure(self, topic: str | None = None) -> None:
        """Apply the new configuration of a topic, or (None) of all topics, when a default changed."""
        settings: dict[str, PartitionSettings] = {}
        for partition in self._partitions.values():
            name = partition.name.topic
            if topic in (None, name):
                if name not in settings:
                    settings[name] = self._deps.settings_of(name)
                partition.settings = settings[name]
                partition.log.config = settings[name].log
                partition.flushed()

    def directory_failed(self, failure: StorageError) -> None:
        """A log directory failed: its partitions are no longer served."""
        for name, partition in list(self._partitions.items()):
            if partition.log.log_dir.path == failure.directory:
                self._offline.add(name)  # First: the operations that complete now read again.
                self._forget(name)

    def resign_all(self) -> None:
        """Resign everywhere, so that delayed operations complete before the connections close."""
        for partition in self._partitions.values():
            self._resign(partition)


def _check_epoch(log: Log, leader_epoch: LeaderEpoch) -> None:
    """Raise FENCED_LEADER_EPOCH for an epoch that is older than the last one of the log.

    A topic without an id may be a new one of the same name, whose epochs start at 0.
    """
    if log.topic_id != NO_TOPIC_ID and leader_epoch < log.epochs.latest:
        raise _restored_epoch_error(log.topic_partition, leader_epoch, log.epochs.latest)


def _restored_epoch_error(name: TopicPartition, leader_epoch: int, known: int) -> BrokerError:
    return BrokerError(
        ErrorCode.FENCED_LEADER_EPOCH,
        f"{name} is in leader epoch {known} here, and {leader_epoch} in the coordination store: its data is older",
    )
