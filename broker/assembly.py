"""The parts of a broker between its ports and its network, put together in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from sordini.broker.clock import Clock
from sordini.broker.commands import CommandReceiver
from sordini.broker.config import Config
from sordini.broker.config_admin import ConfigAdmin
from sordini.broker.config_receiver import ConfigReceiver, read_settings
from sordini.broker.dispatch import Dispatcher, Route
from sordini.broker.dynamic_config import DynamicConfig
from sordini.broker.fetch_sessions import FetchSessions
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.internal_topic import OffsetsTopic
from sordini.broker.groups.ports import CallLater, Ports
from sordini.broker.handlers.alter_configs import AlterConfigsHandler
from sordini.broker.handlers.api_versions import ApiVersionsHandler
from sordini.broker.handlers.cluster import ClusterHandler
from sordini.broker.handlers.configs import ConfigsHandler
from sordini.broker.handlers.coordinators import CoordinatorsHandler
from sordini.broker.handlers.fetch import FetchHandler
from sordini.broker.handlers.group_offsets import GroupOffsetsHandler
from sordini.broker.handlers.groups import GroupsHandler
from sordini.broker.handlers.log_dirs import LogDirsHandler
from sordini.broker.handlers.metadata import MetadataHandler
from sordini.broker.handlers.offsets import OffsetsHandler
from sordini.broker.handlers.partitions import PartitionsHandler
from sordini.broker.handlers.produce import ProduceHandler
from sordini.broker.handlers.producer_ids import ProducerIdHandler
from sordini.broker.handlers.records import RecordsHandler
from sordini.broker.handlers.sasl import SaslHandler
from sordini.broker.handlers.topic_pages import TopicPagesHandler
from sordini.broker.handlers.topics import TopicsHandler
from sordini.broker.identity import BrokerIdentity
from sordini.broker.logger_levels import LoggerLevels
from sordini.broker.metadata_cache import MetadataCache
from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.ports import Log
from sordini.broker.partition_admin import PartitionAdmin
from sordini.broker.settings import INT32_MAX
from sordini.broker.topic_admin import TopicAdmin
from sordini.broker.topic_configs import TopicConfigs
from sordini.replication.controller.configs import ConfigChanges
from sordini.replication.controller.paths import topic_entity
from sordini.replication.controller.producer_ids import ProducerIdBlocks
from sordini.replication.controller.topics import topic_ids
from sordini.replication.ports import Session
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.home import Randomness
from sordini.storage.log_manager import LogManager

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Surroundings(NamedTuple):
    """What the parts are put together from."""

    dynamic: DynamicConfig
    identity: BrokerIdentity
    session: Session
    clock: Clock
    randomness: Randomness
    spawn: Spawn
    call_later: CallLater
    log: Log

    @property
    def config(self) -> Config:
        """The configuration in force now; whoever keeps a value of it keeps what it was when the broker started."""
        return self.dynamic.config


class Assembly(NamedTuple):
    """The parts that the server starts, feeds and stops."""

    metadata: MetadataCache
    topic_configs: TopicConfigs
    replicas: ReplicaSet
    receiver: CommandReceiver
    sessions: FetchSessions
    dispatcher: Dispatcher
    config_changes: ConfigChanges
    partition_admin: PartitionAdmin
    groups: GroupCoordinator


def topic_configs_of(dynamic: DynamicConfig, session: Session, log: Log) -> TopicConfigs:
    """The topics' configurations, read through a session. Unreadable ones count as empty."""

    async def read_overrides(topic: str) -> Mapping[str, str]:
        return await read_settings(session, topic_entity(topic), log)

    return TopicConfigs(dynamic, read_overrides)


def assemble(around: Surroundings, topic_configs: TopicConfigs, logs: LogManager) -> Assembly:
    """Put the parts together; nothing runs yet."""
    broker_id = around.identity.broker_id
    metadata = MetadataCache(around.identity.cluster_id)
    replicas = ReplicaSet(
        broker_id, logs, topic_configs.settings_of, metadata.exists, metadata.name_of, around.clock.now_ms
    )
    sessions = FetchSessions(
        around.config.max_incremental_fetch_session_cache_slots,
        lambda: around.randomness.getrandbits(31),
        metadata.name_of,
    )
    dispatcher = Dispatcher(around.spawn, around.log)
    topic_ids_drawn = topic_ids(around.randomness.getrandbits)
    topic_admin = TopicAdmin(
        broker_id, around.session, metadata, topic_configs, around.config, topic_ids_drawn, around.spawn
    )
    partition_admin = PartitionAdmin(metadata)
    dispatcher.add(_routes(around, topic_admin, metadata, replicas, sessions, dispatcher))
    offsets_topic = OffsetsTopic(around.config, topic_admin, metadata, around.spawn, around.log)
    groups = GroupCoordinator(
        around.config,
        offsets_topic,
        Ports(around.clock, around.call_later, around.spawn, around.randomness, around.log),
    )
    replicas.listener = groups
    dispatcher.add(_group_routes(around, groups, offsets_topic, metadata))
    dispatcher.add(PartitionsHandler(topic_admin, partition_admin, dispatcher.later).routes())
    dispatcher.add([LogDirsHandler(logs).route()])
    config_receiver = ConfigReceiver(broker_id, around.dynamic, topic_configs, replicas, around.log)
    changes = ConfigChanges(around.session, config_receiver.changed, around.clock, around.log)
    dispatcher.add(_config_routes(around, topic_configs, metadata, changes, dispatcher))
    receiver = CommandReceiver(broker_id, replicas, metadata, topic_configs, around.log)
    receiver.on_deleted = groups.partitions_deleted
    return Assembly(metadata, topic_configs, replicas, receiver, sessions, dispatcher, changes, partition_admin, groups)


def _routes(
    around: Surroundings,
    admin: TopicAdmin,
    metadata: MetadataCache,
    replicas: ReplicaSet,
    sessions: FetchSessions,
    dispatcher: Dispatcher,
) -> list[Route]:
    config, clock, later = around.config, around.clock, dispatcher.later
    broker_id = around.identity.broker_id
    producer_ids = ProducerIdBlocks(around.session, broker_id)
    return [
        ProduceHandler(replicas, clock, later).route(),
        FetchHandler(replicas, sessions, clock, around.call_later, bytes_max=config.fetch_max_bytes).route(),
        *OffsetsHandler(replicas).routes(),
        *RecordsHandler(replicas).routes(),
        TopicPagesHandler(metadata, partitions_max=config.max_request_partition_size_limit).route(),
        ApiVersionsHandler().route(),
        *TopicsHandler(admin, metadata, later).routes(),
        ProducerIdHandler(producer_ids, later).route(),
        *ClusterHandler(metadata).routes(),
        *SaslHandler().routes(),
    ]


def _group_routes(
    around: Surroundings, groups: GroupCoordinator, topic: OffsetsTopic, metadata: MetadataCache
) -> list[Route]:
    note_bytes_max = around.config.offset_metadata_max_bytes
    return [
        MetadataHandler(metadata, topic.auto_create).route(),
        CoordinatorsHandler(topic, metadata).route(),
        *GroupsHandler(groups).routes(),
        *GroupOffsetsHandler(groups, metadata, around.clock, metadata_bytes_max=note_bytes_max).routes(),
    ]


def _config_routes(
    around: Surroundings,
    topic_configs: TopicConfigs,
    metadata: MetadataCache,
    changes: ConfigChanges,
    dispatcher: Dispatcher,
) -> list[Route]:
    broker_id = around.identity.broker_id
    patience_ms = around.config.zookeeper_session_timeout_ms
    loggers = LoggerLevels(around.log)
    admin = ConfigAdmin(broker_id, around.session, metadata, changes, loggers, patience_ms)
    return [
        ConfigsHandler(broker_id, around.dynamic, metadata, topic_configs.config_of, loggers).route(),
        *AlterConfigsHandler(admin, metadata, dispatcher.later).routes(),
    ]


def network_limits(config: Config) -> tuple[NetworkLimits, ConnectionLimits]:
    """The network's numbers, from the configuration."""
    return (
        NetworkLimits(
            processors=config.num_network_threads,
            processor_connections_max=config.processor_connections_max,
            connections_max=config.max_connections,
            connections_per_address_max=config.max_connections_per_ip,
            connections_per_address_overrides=config.max_connections_by_ip,
            request_memory_bytes_max=config.queued_max_request_bytes,
        ),
        ConnectionLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            idle_ms_max=config.connections_max_idle_ms,
            # A consumer that works on what it has may leave the rest unread for minutes: no less than idling.
            stall_ms_max=config.connections_max_idle_ms if config.connections_max_idle_ms >= 0 else INT32_MAX,
            parked_max=config.connection_parked_max,
            first_request_ms_max=config.first_request_ms,
            frame_bytes_per_s_min=config.request_bytes_per_s_min,
        ),
    )
