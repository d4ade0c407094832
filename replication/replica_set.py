"""The partitions this broker holds, and how the controller's commands change them.

Handlers find partitions here by name or by topic id; a partition that is not here is told apart from one that does
not exist, because clients do different things about the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import EPOCH_DURING_DELETION, PartitionInfo
from sordini.replication.leader import Term
from sordini.replication.partition import Partition
from sordini.replication.partition_deps import NO_PEERS, PartitionSettings, Peers
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.log_manager import LogManager

NOBODY = BrokerId(-1)
"""The leader of a partition that has none."""

Exists = Callable[[str, int], bool]
NameOf = Callable[[TopicId], str | None]


class LeadershipListener(Protocol):
    """Somebody who keeps more of a partition than its log, for as long as this broker leads it."""

    def leads(self, partition: Partition) -> None:
        """A term has begun; also one that follows another of this broker's own."""

    def resigned(self, partition: Partition) -> None:
        """The partition is led by this broker no longer."""


class Fetching(Protocol):
    """Who fetches what this broker follows."""

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from its leader (`partition.follower` says who), from now on."""

    def unfollow(self, partition: Partition) -> None:
        """Fetch it no longer; harmless for one that is not fetched."""


class NoFetching:
    """For a broker that has no peers: there is nobody to fetch from."""

    def follow(self, partition: Partition) -> None:
        """Nothing comes of it."""

    def unfollow(self, partition: Partition) -> None:
        """There was nothing."""


class ReplicaSetDeps(NamedTuple):
    """What the set asks for beyond this broker's logs."""

    settings_of: Callable[[str], PartitionSettings]
    exists: Exists
    """Whether the cluster has a partition, wherever it is."""
    name_of: NameOf
    now_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]
    fetching: Fetching = NoFetching()
    peers: Peers = NO_PEERS
    truncates_before_fetch: bool = False
    """Followers truncate by OffsetForLeaderEpoch: the protocol between brokers is older than Fetch version 12."""


class ReplicaSet:
    """Every partition with a copy on this broker."""

    def __init__(self, broker_id: BrokerId, logs: LogManager, surroundings: ReplicaSetDeps) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._surroundings = surroundings
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[TopicId, int], Partition] = {}
        self._offline: set[tuple[str, int]] = set()
        """Partitions of this broker whose log directory failed, or was missing at the start."""
        self._is_leaving = False
        self.listener: LeadershipListener | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if it is held here."""
        return self._partitions.get((topic, index))

    def partition(self, topic: str, index: int) -> Partition:
        """The partition.

        Raises BrokerError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR when it is in a log directory that is
        offline, NOT_LEADER_OR_FOLLOWER when it is on another broker.
        """
        partition = self._partitions.get((topic, index))
        if partition is None or partition.leader is None:
            if partition is not None and self._surroundings.exists(topic, index):
                return partition
            if (topic, index) in self._offline:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is in a log directory that failed")
            if self._surroundings.exists(topic, index):
                raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on this broker")
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        return partition

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """As `partition`, by the topic's id; raises BrokerError UNKNOWN_TOPIC_ID, too (KIP-516)."""
        partition = self._by_id.get((topic_id, index))
        if partition is not None and partition.leader is not None:
            return partition
        topic = self._surroundings.name_of(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
        return self.partition(topic, index)

    def has_log(self, name: TopicPartition) -> bool:
        """Whether this broker has a log of that partition, in use or not."""
        return self._logs.get(name) is not None

    async def make_room(self, names: Iterable[TopicPartition]) -> None:
        """Before `become` makes logs: see to it that nothing on the disk is left of deleted ones of the same names."""
        await self._logs.forget_deleted([name for name in names if self._logs.get(name) is None])

    def become(self, info: PartitionInfo) -> None:
        """Lead or follow a partition as a LeaderAndIsr says, making its log where there is none.

        Raises StorageError, and BrokerError: UNKNOWN_TOPIC_OR_PARTITION for one that is not assigned to this broker,
        STALE_CONTROLLER_EPOCH for an epoch that is not newer, FENCED_LEADER_EPOCH for one that is older than the term
        in which this broker leads or, unless it follows, than the last epoch of its log, INCONSISTENT_TOPIC_ID for a
        log of another topic, INVALID_REQUEST to lead from outside of the in-sync set, KAFKA_STORAGE_ERROR for a log
        that is missing while a directory is offline, unless the partition is new.
        """
        name, state = info.topic_partition, info.state
        if self._broker_id not in info.replicas:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker holds no copy of {name}")
        if state.leader == self._broker_id and state.leader not in state.isr:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"a leader of {name} that is not in its in-sync set")
        partition = self._partitions.get(name)
        if partition is not None and state.leader_epoch <= partition.leader_epoch:
            if state.leader_epoch == partition.leader_epoch and self._is_given_id(partition, info.topic_id):
                return
            if partition.leader is not None and state.leader_epoch < partition.leader_epoch:
                raise _set_back(name, state.leader_epoch, partition.leader_epoch)
            if partition.follower is None:
                _check_epoch(partition.log, state.leader_epoch)
            # A follower says nothing of its log: the leader that it follows has all that was committed, and says so.
            raise BrokerError(ErrorCode.STALE_CONTROLLER_EPOCH, f"{name} is past leader epoch {state.leader_epoch}")
        if partition is None:
            partition = self._open(name, info.topic_id, state.leader_epoch, is_new=info.is_new)
        else:
            self._check_id(partition.log, info.topic_id)
            self._identify(partition)
        term = Term(state.leader_epoch, state.isr, info.replicas, info.partition_epoch)
        if state.leader == self._broker_id:
            self._lead(partition, term)
        else:
            self._follow(partition, NOBODY if state.leader is None else state.leader, term)

    def _lead(self, partition: Partition, term: Term) -> None:
        self._surroundings.fetching.unfollow(partition)
        partition.lead(self._broker_id, term, self._surroundings.monotonic_ms())
        if self.listener is not None:
            self.listener.leads(partition)

    def _follow(self, partition: Partition, leader_id: BrokerId, term: Term) -> None:
        if partition.follower is not None:
            self._surroundings.fetching.unfollow(partition)
        else:
            self._resign(partition)
        partition.follow(leader_id, term, truncates_before_fetch=self._surroundings.truncates_before_fetch)
        is_out = self._is_leaving and self._broker_id not in term.isr
        if leader_id != NOBODY and not is_out:
            self._surroundings.fetching.follow(partition)

    def _open(self, name: TopicPartition, topic_id: TopicId, leader_epoch: LeaderEpoch, *, is_new: bool) -> Partition:
        settings = self._surroundings.settings_of(name.topic)
        log = self._logs.get(name)
        if log is None:
            offline = self._logs.offline_directories
            if offline and not is_new:
                # Its records are probably there: an empty log beside them would lose them and divide the partition.
                self._offline.add(name)
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} may be in {', '.join(offline)}")
            log = self._logs.create(name, topic_id, settings.log)
        elif log.log_dir.failure is not None:
            # The controller asks what is left: this is how it hears which replicas are lost (KIP-112).
            self._offline.add(name)
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} is in {log.log_dir.path}, which failed")
        else:
            self._check_id(log, topic_id)
            _check_epoch(log, leader_epoch)
            log.config = settings.log
        self._offline.discard(name)
        partition = self._partitions[name] = Partition(name, topic_id, log, settings, self._surroundings.peers)
        self._identify(partition)
        return partition

    def _check_id(self, log: Log, topic_id: TopicId) -> None:
        """A log belongs to one topic for ever; where it has no id yet it takes this one."""
        if topic_id in (NO_TOPIC_ID, log.topic_id):
            return
        if log.topic_id != NO_TOPIC_ID:
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {log.topic_partition} belongs to another topic id"
            )
        log.set_topic_id(topic_id)

    def _is_given_id(self, partition: Partition, topic_id: TopicId) -> bool:
        """Whether a topic that had no id has one now; a controller of a newer protocol gives it (KIP-516)."""
        if partition.log.topic_id != NO_TOPIC_ID or topic_id == NO_TOPIC_ID:
            return False
        self._check_id(partition.log, topic_id)
        self._identify(partition)
        return True

    def _identify(self, partition: Partition) -> None:
        """Let a partition be found by its topic's id, if there is one: topics of old protocols share the lack of it."""
        topic_id = partition.topic_id = partition.log.topic_id
        if topic_id != NO_TOPIC_ID:
            self._by_id[topic_id, partition.name.partition] = partition

    def _forget(self, name: tuple[str, int]) -> None:
        partition = self._partitions.pop(name, None)
        if partition is not None:
            self._by_id.pop((partition.topic_id, partition.name.partition), None)
            self._resign(partition)

    def _resign(self, partition: Partition) -> None:
        self._surroundings.fetching.unfollow(partition)
        partition.resign()
        if self.listener is not None:
            self.listener.resigned(partition)

    def superseded(self, info: PartitionInfo) -> None:
        """Lead a partition no longer, where an UpdateMetadata names another leader of a newer leader epoch.

        A LeaderAndIsr says the same, but none comes for a partition that was moved to other brokers while the
        cluster took this one for dead. The epoch of the term that is over stays known, and whatever comes begins.
        """
        partition, state = self._partitions.get(info.topic_partition), info.state
        if partition is None or partition.leader is None or state.leader_epoch <= partition.leader_epoch:
            return
        if state.leader not in (None, self._broker_id):
            self._resign(partition)

    def stop(self, name: TopicPartition, *, leader_epoch: int = EPOCH_DURING_DELETION, delete: bool) -> None:
        """Stop serving and fetching a partition, and delete its log when asked; one that is not here is fine.

        Raises BrokerError FENCED_LEADER_EPOCH for an epoch that is over (-1 and -2 are not compared: KIP-570).
        """
        partition = self._partitions.get(name)
        if partition is not None and 0 <= leader_epoch < partition.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"{name} is in epoch {partition.leader_epoch}")
        if partition is not None and not delete:
            self._resign(partition)  # The epoch stays known: a LeaderAndIsr that comes late is still too old.
            return
        self._forget(name)
        self._offline.discard(name)
        if delete and self._logs.get(name) is not None:
            self._logs.delete(name, self._surroundings.now_ms())

    # Of all partitions.

    def check_isr(self) -> None:
        """Ask to go on without followers that have fallen behind, and wait no longer for those that have gone.

        To be called every half of the lag allowed, and when brokers are registered no longer.
        """
        now_ms = self._surroundings.monotonic_ms()
        for partition in list(self._partitions.values()):
            partition.maybe_shrink_isr(now_ms)

    def reconsider(self) -> None:
        """Brokers have come or gone, or the controller is another one: refused followers may be proposed again."""
        for partition in self._partitions.values():
            if partition.leader is not None:
                partition.leader.reconsider()

    def leave(self) -> None:
        """Before an orderly stop: begin to fetch nothing more where this broker is not in sync, as what it handed over.

        A leader asks the controller to add each follower that fetches and has caught up. A controller of Apache Kafka
        2.7 grants that. One of 3.9 refuses it, below AlterPartition v2 with a code that leaders of 2.7 do not survive.
        """
        self._is_leaving = True

    def reconfigure(self, topic: str | None = None) -> None:
        """A topic's configuration changed, or (None) what all topics inherit: partitions here take the new values."""
        settings: dict[str, PartitionSettings] = {}
        for partition in self._partitions.values():
            name = partition.name.topic
            if topic in (None, name):
                if name not in settings:
                    settings[name] = self._surroundings.settings_of(name)
                partition.settings = settings[name]
                partition.log.config = settings[name].log
                partition.flushed()

    def directory_failed(self, failure: StorageError) -> None:
        """A log directory is offline: what is in it stops being served; the rest goes on."""
        for name, partition in list(self._partitions.items()):
            if partition.log.log_dir.path == failure.directory:
                self._offline.add(name)  # First: whoever waits is woken to ask again.
                self._forget(name)

    def resign_all(self) -> None:
        """Stop leading, so that whoever waits gets an answer before the connections close."""
        for partition in self._partitions.values():
            self._resign(partition)


def _check_epoch(log: Log, leader_epoch: LeaderEpoch) -> None:
    """Raise FENCED_LEADER_EPOCH for an epoch that is older than the last one of the log.

    A topic without an id may be another one of the same name, whose epochs begin anew.
    """
    if log.topic_id != NO_TOPIC_ID and leader_epoch < log.epochs.latest:
        raise _set_back(log.topic_partition, leader_epoch, log.epochs.latest)


def _set_back(name: TopicPartition, leader_epoch: int, known: int) -> BrokerError:
    return BrokerError(
        ErrorCode.FENCED_LEADER_EPOCH,
        f"{name} is in leader epoch {known} here, and {leader_epoch} in the coordination store: its data is older",
    )
