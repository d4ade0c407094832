"""The broker's end of the controller's commands: become leader, learn metadata, stop replicas.

The commands come from the controller in this process or, in a cluster, over the wire; either way they come one at a
time and carry the epochs by which a command of a controller, or for a broker, of the past is told and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from sordini.broker.network.ports import Log
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.controller.cluster import (
    Answer,
    Command,
    LeaderAndIsr,
    PartitionInfo,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError


class CommandReceiver:
    """Carries the controller's commands out on this broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        replicas: ReplicaSet,
        metadata: MetadataCache,
        topic_configs: TopicConfigs,
        log: Log,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._log = log
        self._controller_epoch = -1
        self.broker_epoch = -1
        self.on_deleted: Callable[[Collection[TopicPartition]], None] = _nobody
        """Is told of partitions that are gone from the cluster."""

    async def receive(self, command: Command) -> Answer:
        """Carry out one command; what fails for one partition is that partition's error code in the answer."""
        if command.controller_epoch < self._controller_epoch:
            return Answer(error=ErrorCode.STALE_CONTROLLER_EPOCH)
        if -1 < command.broker_epoch < self.broker_epoch:
            return Answer(error=ErrorCode.STALE_BROKER_EPOCH)
        self._controller_epoch = command.controller_epoch
        if isinstance(command, LeaderAndIsr):
            return await self._become(command)
        if isinstance(command, StopReplica):
            return self._stop(command)
        return self._learn(command)

    async def _become(self, command: LeaderAndIsr) -> Answer:
        await self._topic_configs.load({info.topic_partition.topic for info in command.partitions})
        errors: dict[TopicPartition, int] = {}
        for info in command.partitions:
            try:
                self._become_one(info)
            except BrokerError as error:
                errors[info.topic_partition] = error.code
                if error.code != ErrorCode.STALE_CONTROLLER_EPOCH:
                    self._log.warning("partition refused", partition=str(info.topic_partition), reason=str(error))
            except StorageError:
                errors[info.topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
        return Answer(partitions=errors)

    def _become_one(self, info: PartitionInfo) -> None:
        if self._broker_id not in info.replicas:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "this broker holds no copy of it")
        state = info.state
        if state.leader != self._broker_id:
            self._replicas.stop(info.topic_partition, delete=False)
            return
        self._replicas.lead(
            info.topic_partition,
            info.topic_id,
            state.leader_epoch,
            list(state.isr),
            len(info.replicas),
            is_new=info.is_new,
        )

    def _stop(self, command: StopReplica) -> Answer:
        errors: dict[TopicPartition, int] = {}
        for stopped in command.partitions:
            try:
                self._replicas.stop(stopped.topic_partition, delete=stopped.delete)
            except (BrokerError, StorageError) as error:
                # What cannot be deleted now, the controller asks for again when this broker comes back.
                errors[stopped.topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
                self._log.warning("log not deleted", partition=str(stopped.topic_partition), reason=str(error))
                continue
            if stopped.delete:
                self._topic_configs.forget(stopped.topic_partition.topic)
        return Answer(partitions=errors)

    def _learn(self, command: UpdateMetadata) -> Answer:
        self._metadata.set_brokers(
            command.controller_id,
            [
                BrokerMetadata(
                    broker.broker_id,
                    {endpoint.listener: (endpoint.host, endpoint.port) for endpoint in broker.endpoints},
                    broker.rack,
                )
                for broker in command.live_brokers
            ],
        )
        for info in command.partitions:
            state = info.state
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
        for gone in command.deleted:
            self._metadata.drop_partition(*gone.topic_partition)
        self._metadata.changed()
        self.on_deleted([gone.topic_partition for gone in command.deleted])
        return Answer()


def _nobody(_gone: Collection[TopicPartition]) -> None:
    """Nobody keeps anything by partition yet."""
