"""The partitions this broker holds, and how the controller's commands change them.

Handlers find partitions here by name or by topic id; a partition that is not here is told apart from one that does
not exist, because clients do different things about the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.partition import Partition, PartitionSettings
from sordini.storage.errors import StorageError
from sordini.storage.log_manager import LogManager

Exists = Callable[[str, int], bool]
NameOf = Callable[[TopicId], str | None]


class LeadershipListener(Protocol):
    """Somebody who keeps more of a partition than its log, for as long as this broker leads it."""

    def leads(self, partition: Partition) -> None:
        """A term has begun; also one that follows another of this broker's own."""

    def resigned(self, partition: Partition) -> None:
        """The partition is led by this broker no longer."""


class ReplicaSet:
    """Every partition with a copy on this broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        logs: LogManager,
        settings_of: Callable[[str], PartitionSettings],
        exists: Exists,
        name_of: NameOf,
        now_ms: Callable[[], int],
    ) -> None:
        """`exists` and `name_of` ask what the cluster knows beyond this broker."""
        self._broker_id = broker_id
        self._logs = logs
        self._settings_of = settings_of
        self._exists = exists
        self._name_of = name_of
        self._now_ms = now_ms
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[TopicId, int], Partition] = {}
        self._offline: set[tuple[str, int]] = set()
        """Partitions of this broker whose log directory failed, or was missing at the start."""
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
        if partition is None:
            if (topic, index) in self._offline:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is in a log directory that failed")
            if self._exists(topic, index):
                raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on this broker")
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        return partition

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """As `partition`, by the topic's id; raises BrokerError UNKNOWN_TOPIC_ID, too (KIP-516)."""
        partition = self._by_id.get((topic_id, index))
        if partition is not None:
            return partition
        topic = self._name_of(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
        return self.partition(topic, index)

    def lead(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        in_sync_replicas: list[BrokerId],
        replicas_count: int,
        *,
        is_new: bool,
    ) -> None:
        """Become the leader of a partition, making its log where there is none.

        Raises StorageError, and BrokerError: STALE_CONTROLLER_EPOCH for an epoch that is not newer,
        INCONSISTENT_TOPIC_ID for a log of another topic, KAFKA_STORAGE_ERROR for a log that is missing while a
        directory is offline, unless the partition `is_new`.
        """
        partition = self._partitions.get(name)
        if partition is not None and partition.leader is not None and leader_epoch <= partition.leader.leader_epoch:
            raise BrokerError(ErrorCode.STALE_CONTROLLER_EPOCH, f"{name} is past leader epoch {leader_epoch}")
        if partition is None:
            partition = self._open(name, topic_id, is_new=is_new)
        partition.lead(self._broker_id, leader_epoch, in_sync_replicas, replicas_count)
        if self.listener is not None:
            self.listener.leads(partition)

    def _open(self, name: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Partition:
        settings = self._settings_of(name.topic)
        log = self._logs.get(name)
        if log is None:
            offline = self._logs.offline_directories
            if offline and not is_new:
                # Its records are probably there: an empty log beside them would lose them and divide the partition.
                self._offline.add(name)
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} may be in {', '.join(offline)}")
            log = self._logs.create(name, topic_id, settings.log)
        else:
            if log.topic_id == NO_TOPIC_ID and topic_id != NO_TOPIC_ID:
                log.set_topic_id(topic_id)
            if log.topic_id != topic_id:
                raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID, f"the log of {name} belongs to another topic id")
            log.config = settings.log
        self._offline.discard(name)
        partition = self._partitions[name] = Partition(name, topic_id, log, settings)
        if topic_id != NO_TOPIC_ID:  # Topics of old trees share the lack of one.
            self._by_id[topic_id, name.partition] = partition
        return partition

    def _forget(self, name: tuple[str, int]) -> None:
        partition = self._partitions.pop(name, None)
        if partition is not None:
            self._by_id.pop((partition.topic_id, partition.name.partition), None)
            self._resign(partition)

    def _resign(self, partition: Partition) -> None:
        partition.resign()
        if self.listener is not None:
            self.listener.resigned(partition)

    def stop(self, name: TopicPartition, *, delete: bool) -> None:
        """Stop serving a partition, and delete its log when asked; one that is not here is fine."""
        self._forget(name)
        self._offline.discard(name)
        if delete and self._logs.get(name) is not None:
            self._logs.delete(name, self._now_ms())

    def reconfigure(self, topic: str | None = None) -> None:
        """A topic's configuration changed, or (None) what all topics inherit: partitions here take the new values."""
        settings: dict[str, PartitionSettings] = {}
        for partition in self._partitions.values():
            name = partition.name.topic
            if topic in (None, name):
                if name not in settings:
                    settings[name] = self._settings_of(name)
                partition.settings = settings[name]
                partition.log.config = settings[name].log
                partition.flushed()

    def directory_failed(self, failure: StorageError) -> None:
        """A log directory is offline: what is in it stops being served; the rest goes on."""
        for name, partition in list(self._partitions.items()):
            if partition.log.home.path == failure.directory:
                self._offline.add(name)  # First: whoever waits is woken to ask again.
                self._forget(name)

    def resign_all(self) -> None:
        """Stop leading, so that whoever waits gets an answer before the connections close."""
        for partition in self._partitions.values():
            self._resign(partition)
