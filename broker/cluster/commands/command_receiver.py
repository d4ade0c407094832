"""Carries out the controller's commands on this broker: LeaderAndIsr, UpdateMetadata, StopReplica.

Commands come from the controller in this process or over the wire, and are carried out one at a time. Each carries the
controller epoch and the broker epoch, by which a command of a former controller, or for a former registration of this
broker, is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from sordini.broker.cluster.commands.deferred_partitions import DeferredPartitions
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
    Command,
    CommandAnswer,
    LeaderAndIsr,
    PartitionInfo,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.ports import RETRY_DELAY_S, ConnectionLoss, Logger, SessionExpired
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import DiskFull, RetriableRefusal, StorageError

TOPICS_READ_AT_ONCE = 100
PARTITIONS_PER_SLICE = 100
"""How many partitions a command changes before the loop serves other work. One whose files are created or renamed is a
slice of its own: that takes a millisecond, and ten or more on a busy disk.
"""
PARTITIONS_LEARNED_PER_SLICE = 2_000
"""How many partitions or brokers of an UpdateMetadata are taken before the loop serves other work."""


class CommandReceiver:
    """Receives commands, one at a time."""

    def __init__(
        self,
        replicas: ReplicaSet,
        metadata: MetadataCache,
        topic_configs: TopicConfigs,
        log: Logger,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._log = log
        self.deferred = DeferredPartitions(log)
        self._lock = asyncio.Lock()  # First come, first served.
        self._controller_epoch = -1
        self.broker_epoch = -1
        self.on_deleted: list[Callable[[Collection[TopicPartition]], None]] = []
        """Each is called with partitions that were deleted from the cluster."""

    @property
    def controller_epoch(self) -> int:
        """The highest epoch accepted; 0 before the first command."""
        return max(0, self._controller_epoch)

    async def receive(self, command: Command) -> CommandAnswer:
        """Carry out one command; what fails for one partition is that partition's error code in the answer.

        A command that arrives meanwhile waits, and its epochs are checked when it is carried out.
        """
        async with self._lock:
            return await self._carry_out(command)

    async def _carry_out(self, command: Command) -> CommandAnswer:
        refusal = self._refusal(command)
        if refusal is not None:
            return refusal
        if isinstance(command, LeaderAndIsr):
            await self._read_configs({info.topic_partition.topic for info in command.partitions})
            # The store may have been unreachable for long, and this broker registered again since.
            return self._refusal(command) or await self._become(command)
        self._controller_epoch = command.controller_epoch
        if isinstance(command, StopReplica):
            return await self._stop(command)
        return await self._learn(command)

    def _refusal(self, command: Command) -> CommandAnswer | None:
        """The refusal of a command of a former controller, or for a former registration of this broker."""
        if command.controller_epoch < self._controller_epoch:
            return CommandAnswer(error=ErrorCode.STALE_CONTROLLER_EPOCH)
        if -1 < command.broker_epoch < self.broker_epoch:
            return CommandAnswer(error=ErrorCode.STALE_BROKER_EPOCH)
        return None

    async def _read_configs(self, topics: Collection[str]) -> None:
        """Read the configurations of topics that are not loaded yet; changes of the others arrive as notifications.

        Retried for as long as the store is unreachable: the controller does not repeat a command that was refused.
        """
        while new := [topic for topic in topics if not self._topic_configs.knows(topic)]:
            try:
                for start in range(0, len(new), TOPICS_READ_AT_ONCE):
                    await self._topic_configs.load(new[start : start + TOPICS_READ_AT_ONCE])
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(RETRY_DELAY_S)

    async def _become(self, command: LeaderAndIsr) -> CommandAnswer:
        self._controller_epoch = command.controller_epoch
        await self._replicas.finish_deletions(info.topic_partition for info in command.partitions)
        errors: dict[TopicPartition, int] = {}
        async for info in self._sliced(command):
            code = self._become_one(info)
            if code:
                errors[info.topic_partition] = code
        self._replicas.log_role_changes()
        return self._refusal(command) or CommandAnswer(partitions=errors)

    async def _sliced(self, command: LeaderAndIsr | StopReplica) -> AsyncIterator[Any]:
        """The command's partitions, with other work of the loop in between.

        Ends early when this broker registered again meanwhile, so that the command is now refused.
        """
        left = PARTITIONS_PER_SLICE
        for partition in command.partitions:
            if left <= 0:
                await asyncio.sleep(0)
                left = PARTITIONS_PER_SLICE
            if self._refusal(command) is not None:
                return
            left -= PARTITIONS_PER_SLICE if self._changes_files(partition) else 1
            yield partition

    def _changes_files(self, partition: PartitionInfo | StoppedReplica) -> bool:
        """Whether a log is created, or renamed to be deleted."""
        has_log = self._replicas.has_log(partition.topic_partition)
        return partition.delete and has_log if isinstance(partition, StoppedReplica) else not has_log

    def _become_one(self, info: PartitionInfo) -> int:
        """Become leader or follower; returns the error code, 0 for none."""
        try:
            self._replicas.become_leader_or_follower(info)
        except RetriableRefusal as error:
            self.deferred.defer(info.topic_partition, str(error), is_shared=isinstance(error, DiskFull))
            return error.code
        except BrokerError as error:
            if error.code != ErrorCode.STALE_CONTROLLER_EPOCH:
                self._log.warning(
                    "partition state change refused", partition=str(info.topic_partition), reason=str(error)
                )
            return error.code
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.deferred.opened(info.topic_partition)
        return ErrorCode.NONE

    async def _stop(self, command: StopReplica) -> CommandAnswer:
        errors: dict[TopicPartition, int] = {}
        async for stopped in self._sliced(command):
            self.deferred.forget(stopped.topic_partition)
            try:
                self._replicas.stop_replica(
                    stopped.topic_partition, leader_epoch=stopped.leader_epoch, delete=stopped.delete
                )
            except BrokerError as error:
                errors[stopped.topic_partition] = error.code
                continue
            except StorageError as error:
                # The controller repeats the deletion when this broker registers again.
                errors[stopped.topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
                self._log.warning("log not deleted", partition=str(stopped.topic_partition), reason=str(error))
                continue
            if stopped.delete:
                self._topic_configs.forget(stopped.topic_partition.topic)
        return self._refusal(command) or CommandAnswer(partitions=errors)

    async def _learn(self, command: UpdateMetadata) -> CommandAnswer:
        """Update the metadata in slices; cached Metadata answers are valid until `changed`."""
        former, former_controller = self._metadata.brokers.keys(), self._metadata.controller_id
        live_brokers = []
        for number, broker in enumerate(command.live_brokers, 1):
            if not number % PARTITIONS_LEARNED_PER_SLICE:
                await asyncio.sleep(0)
            endpoints = {endpoint.listener: (endpoint.host, endpoint.port) for endpoint in broker.endpoints}
            live_brokers.append(BrokerMetadata(broker.broker_id, endpoints, broker.rack))
        self._metadata.set_brokers(command.controller_id, live_brokers)
        for number, info in enumerate(command.partitions, 1):
            if not number % PARTITIONS_LEARNED_PER_SLICE:
                await asyncio.sleep(0)
            state = info.state
            self._replicas.resign_if_superseded(info)
            self._metadata.set_partition(
                info.topic_partition.topic,
                info.topic_id,
                info.topic_partition.partition,
                PartitionMetadata(
                    leader=BrokerId(-1) if state.leader is None else state.leader,
                    leader_epoch=LeaderEpoch(state.leader_epoch),
                    replicas=info.replicas,
                    in_sync_replicas=state.isr,
                    offline_replicas=info.offline_replicas,
                ),
            )
        for number, deleted in enumerate(command.deleted, 1):
            if not number % PARTITIONS_LEARNED_PER_SLICE:
                await asyncio.sleep(0)
            self._metadata.drop_partition(*deleted.topic_partition)
        self._metadata.changed()
        if former != self._metadata.brokers.keys() or former_controller != self._metadata.controller_id:
            self._replicas.clear_isr_refusals()
        if former - self._metadata.brokers.keys():
            self._replicas.maybe_shrink_isr()  # Acknowledgements may wait for a pending ISR expansion by such a broker.
        deleted_partitions = [deleted.topic_partition for deleted in command.deleted]
        for on_deleted in self.on_deleted:
            on_deleted(deleted_partitions)
        return CommandAnswer()
