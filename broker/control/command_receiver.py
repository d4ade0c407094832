"""The broker's end of the controller's commands: become leader, learn metadata, stop replicas.

The commands come from the controller in this process or, in a cluster, over the wire; either way they come one at a
time and carry the epochs by which a command of a controller, or for a broker, of the past is told and refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.control.deferred_partitions import DeferredPartitions
from sordini.broker.network.ports import Log
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
    Answer,
    Command,
    LeaderAndIsr,
    PartitionInfo,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.ports import ConnectionLoss, SessionExpired
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import DiskFull, RetriableRefusal, StorageError

RETRY_DELAY_S = 0.1
"""Between two attempts to read from a store that does not answer."""
TOPICS_READ_AT_ONCE = 100
PARTITIONS_PER_SLICE = 100
"""How many partitions a command changes before the loop serves others. One whose files are made or renamed is a slice
of its own: that takes a millisecond, and ten or more on a busy disk.
"""
PARTITIONS_LEARNED_PER_SLICE = 2_000
"""How many partitions or brokers of an UpdateMetadata are taken before the loop serves others."""


class CommandReceiver:
    """Carries the controller's commands out on this broker."""

    def __init__(
        self,
        replicas: ReplicaSet,
        metadata: MetadataCache,
        topic_configs: TopicConfigs,
        log: Log,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._log = log
        self.deferred = DeferredPartitions(log)
        self._turn = asyncio.Lock()  # Whoever waits for it longest has it next.
        self._controller_epoch = -1
        self.broker_epoch = -1
        self.on_deleted: Callable[[Collection[TopicPartition]], None] = _nobody
        """Is told of partitions that are gone from the cluster."""

    @property
    def controller_epoch(self) -> int:
        """The highest that was obeyed; 0 before the first."""
        return max(0, self._controller_epoch)

    async def receive(self, command: Command) -> Answer:
        """Carry out one command; what fails for one partition is that partition's error code in the answer.

        One that comes while another is carried out waits for its turn, and is judged by the epochs of then.
        """
        async with self._turn:
            return await self._carry_out(command)

    async def _carry_out(self, command: Command) -> Answer:
        refusal = self._refusal(command)
        if refusal is not None:
            return refusal
        if isinstance(command, LeaderAndIsr):
            await self._read_configs({info.topic_partition.topic for info in command.partitions})
            # The store may have been away for long, and this broker registered anew since.
            return self._refusal(command) or await self._become(command)
        self._controller_epoch = command.controller_epoch
        if isinstance(command, StopReplica):
            return await self._stop(command)
        return await self._learn(command)

    def _refusal(self, command: Command) -> Answer | None:
        """Why a command is not carried out: it is of a controller, or for a life of this broker, of the past."""
        if command.controller_epoch < self._controller_epoch:
            return Answer(error=ErrorCode.STALE_CONTROLLER_EPOCH)
        if -1 < command.broker_epoch < self.broker_epoch:
            return Answer(error=ErrorCode.STALE_BROKER_EPOCH)
        return None

    async def _read_configs(self, topics: Collection[str]) -> None:
        """Read how topics are configured that are not known yet: changes of the others are heard of as they are made.

        However long the store is away: the controller does not repeat a command that was refused.
        """
        while new := [topic for topic in topics if not self._topic_configs.knows(topic)]:
            try:
                for start in range(0, len(new), TOPICS_READ_AT_ONCE):
                    await self._topic_configs.load(new[start : start + TOPICS_READ_AT_ONCE])
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(RETRY_DELAY_S)

    async def _become(self, command: LeaderAndIsr) -> Answer:
        self._controller_epoch = command.controller_epoch
        await self._replicas.finish_deletions(info.topic_partition for info in command.partitions)
        errors: dict[TopicPartition, int] = {}
        async for info in self._sliced(command):
            code = self._become_one(info)
            if code:
                errors[info.topic_partition] = code
        return self._refusal(command) or Answer(partitions=errors)

    async def _sliced(self, command: LeaderAndIsr | StopReplica) -> AsyncIterator[Any]:
        """The command's partitions, with other work of the loop in between.

        It ends when the command is refused by then: this broker registered anew meanwhile, and all its terms are over.
        """
        left = PARTITIONS_PER_SLICE
        for one in command.partitions:
            if left <= 0:
                await asyncio.sleep(0)
                left = PARTITIONS_PER_SLICE
            if self._refusal(command) is not None:
                return
            left -= PARTITIONS_PER_SLICE if self._changes_files(one) else 1
            yield one

    def _changes_files(self, one: PartitionInfo | StoppedReplica) -> bool:
        """Whether a log is made, or put away to be deleted."""
        has_log = self._replicas.has_log(one.topic_partition)
        return one.delete and has_log if isinstance(one, StoppedReplica) else not has_log

    def _become_one(self, info: PartitionInfo) -> int:
        """The error code, 0 for none."""
        try:
            self._replicas.become_leader_or_follower(info)
        except RetriableRefusal as error:
            self.deferred.refused(info.topic_partition, str(error), has_line=isinstance(error, DiskFull))
            return error.code
        except BrokerError as error:
            if error.code != ErrorCode.STALE_CONTROLLER_EPOCH:
                self._log.warning(
                    "partition state change refused", partition=str(info.topic_partition), reason=str(error)
                )
            return error.code
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.deferred.taken(info.topic_partition)
        return ErrorCode.NONE

    async def _stop(self, command: StopReplica) -> Answer:
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
                # What cannot be deleted now, the controller asks for again when this broker comes back.
                errors[stopped.topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
                self._log.warning("log not deleted", partition=str(stopped.topic_partition), reason=str(error))
                continue
            if stopped.delete:
                self._topic_configs.forget(stopped.topic_partition.topic)
        return self._refusal(command) or Answer(partitions=errors)

    async def _learn(self, command: UpdateMetadata) -> Answer:
        """Take what is new in slices: until `changed`, answers that were kept are still given."""
        former, former_controller = self._metadata.brokers.keys(), self._metadata.controller_id
        living = []
        for number, broker in enumerate(command.live_brokers, 1):
            if not number % PARTITIONS_LEARNED_PER_SLICE:
                await asyncio.sleep(0)
            endpoints = {endpoint.listener: (endpoint.host, endpoint.port) for endpoint in broker.endpoints}
            living.append(BrokerMetadata(broker.broker_id, endpoints, broker.rack))
        self._metadata.set_brokers(command.controller_id, living)
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
        for number, gone in enumerate(command.deleted, 1):
            if not number % PARTITIONS_LEARNED_PER_SLICE:
                await asyncio.sleep(0)
            self._metadata.drop_partition(*gone.topic_partition)
        self._metadata.changed()
        if former != self._metadata.brokers.keys() or former_controller != self._metadata.controller_id:
            self._replicas.clear_isr_refusals()
        if former - self._metadata.brokers.keys():
            self._replicas.maybe_shrink_isr()  # Acknowledgements may wait for one that was on its way into a set.
        self.on_deleted([gone.topic_partition for gone in command.deleted])
        return Answer()


def _nobody(_gone: Collection[TopicPartition]) -> None:
    """Nobody keeps anything by partition yet."""
