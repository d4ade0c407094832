"""The parts of a broker between its ports and its network, put together in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from sordini.broker.clock import Clock
from sordini.broker.configuration.admin import ConfigAdmin
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.logger_levels import LoggerLevels
from sordini.broker.configuration.receiver import ConfigReceiver, read_settings, warn_of_format
from sordini.broker.configuration.settings import INT32_MAX
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.control.command_origin import CommandOrigin
from sordini.broker.control.command_receiver import CommandReceiver
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.ports import CallLater, Ports
from sordini.broker.dispatch import Dispatcher, Route
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.handlers.alter_configs import AlterConfigsHandler
from sordini.broker.handlers.api_versions import ApiVersionsHandler
from sordini.broker.handlers.cluster import ClusterHandler
from sordini.broker.handlers.configs import ConditionSource, ConfigsHandler
from sordini.broker.handlers.consumer_groups import ConsumerGroupsHandler
from sordini.broker.handlers.control import ControlHandler
from sordini.broker.handlers.controller_requests import ControllerRequestsHandler
from sordini.broker.handlers.down_conversion import DownConversions
from sordini.broker.handlers.fetch import FetchHandler, Readers
from sordini.broker.handlers.find_coordinator import TRANSACTIONS_TOPIC, FindCoordinatorHandler
from sordini.broker.handlers.group_offsets import GroupOffsetsHandler
from sordini.broker.handlers.groups import GroupsHandler
from sordini.broker.handlers.init_producer_id import ProducerIdHandler
from sordini.broker.handlers.log_dirs import LogDirsHandler
from sordini.broker.handlers.metadata import MetadataHandler
from sordini.broker.handlers.offsets import OffsetsHandler
from sordini.broker.handlers.partitions import PartitionsHandler
from sordini.broker.handlers.preferred_replica import RackAwareReplicaSelector
from sordini.broker.handlers.produce import ProduceHandler
from sordini.broker.handlers.records import RecordsHandler
from sordini.broker.handlers.replica_fetch import ReplicaFetches
from sordini.broker.handlers.request_checks import InterBrokerGuard, guarded
from sordini.broker.handlers.sasl import SaslHandler
from sordini.broker.handlers.topic_pages import TopicPagesHandler
from sordini.broker.handlers.topics import TopicsHandler
from sordini.broker.handlers.txn_markers import MarkersHandler
from sordini.broker.membership.health import BrokerHealth, StoreProbe
from sordini.broker.membership.identity import BrokerIdentity
from sordini.broker.membership.store_contact import NO_DOUBT, StoreContact
from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.ports import Log, Network
from sordini.broker.record_jobs.ports import RecordWorker
from sordini.broker.record_jobs.queue import JobQueue
from sordini.broker.requests.fetch_sessions import FetchSessions
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.partition_admin import PartitionAdmin
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.wiring.inter_broker import Myself, Peering, World, peering_of
from sordini.broker.wiring.log_cleaner import cleaner_of
from sordini.protocol.types import NO_TOPIC_ID
from sordini.replication import replica_set
from sordini.replication.controller.requests import ControllerRequests
from sordini.replication.inter_broker import versions_for
from sordini.replication.metadata_store.configs import ConfigChanges
from sordini.replication.metadata_store.paths import topic_entity
from sordini.replication.metadata_store.topics import topic_ids
from sordini.replication.ports import Session
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.cleaner import LogCleaner, Worker
from sordini.storage.log_dir_handle import Randomness
from sordini.storage.log_manager import LogManager

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Surroundings(NamedTuple):
    """What the parts are put together from."""

    dynamic: DynamicConfig
    identity: BrokerIdentity
    session: Session
    contact: StoreContact
    clock: Clock
    randomness: Randomness
    spawn: Spawn
    call_later: CallLater
    log: Log
    worker: Worker
    record_worker: RecordWorker
    network: Network
    is_clustered: bool
    """Whether other brokers may be there."""

    @property
    def config(self) -> Config:
        """The configuration in force now; whoever keeps a value of it keeps what it was when the broker started."""
        return self.dynamic.config


class BrokerParts(NamedTuple):
    """The parts: those that the server starts, feeds and stops, and those that only handlers use."""

    logs: LogManager
    metadata: MetadataCache
    topic_configs: TopicConfigs
    topic_admin: TopicAdmin
    partition_admin: PartitionAdmin
    config_admin: ConfigAdmin
    config_changes: ConfigChanges
    loggers: LoggerLevels
    replicas: ReplicaSet
    sessions: FetchSessions
    offsets_topic: InternalTopic
    groups: GroupCoordinator
    receiver: CommandReceiver
    dispatcher: Dispatcher
    peering: Peering
    cleaner: LogCleaner
    record_jobs: JobQueue
    condition: BrokerHealth


def topic_configs_of(dynamic: DynamicConfig, session: Session, log: Log) -> TopicConfigs:
    """The topics' configurations, read through a session. Unreadable ones count as empty."""

    async def read_overrides(topic: str) -> Mapping[str, str]:
        settings = await read_settings(session, topic_entity(topic), log)
        warn_of_format(log, dynamic.config, topic_entity(topic), settings)
        return settings

    return TopicConfigs(dynamic, read_overrides)


def assemble(around: Surroundings, topic_configs: TopicConfigs, logs: LogManager) -> BrokerParts:
    """Put the parts together; nothing runs yet."""
    config, broker_id, clock, log = around.config, around.identity.broker_id, around.clock, around.log
    session, spawn, draw = around.session, around.spawn, around.randomness.getrandbits
    protocol = config.inter_broker_protocol_version
    with_ids = versions_for(protocol.release, protocol.step).uses_topic_ids
    metadata = MetadataCache(around.identity.cluster_id, uses_topic_ids=with_ids)
    dispatcher = Dispatcher(spawn, log)
    session.on_state(dispatcher.store_error_codes.session_changed)
    me = Myself(broker_id, lambda: receiver.broker_epoch, session)
    peering = peering_of(
        me,
        around.dynamic,
        topic_configs,
        metadata,
        dispatcher,
        World(around.network, clock, spawn, log),
    )
    logs.cordon(config.cordoned_directories)
    around.dynamic.on_change(lambda now: logs.cordon(now.cordoned_directories))
    replicas = ReplicaSet(
        broker_id,
        logs,
        replica_set.ReplicaSetDeps(
            topic_configs.settings_of,
            metadata.exists,
            metadata.name_of,
            clock.now_ms,
            clock.monotonic_ms,
            log=log,
            fetchers=peering.fetchers,
            peers=peering.peers,
            truncates_before_fetch=not peering.versions.truncates_on_fetch,
        ),
    )
    new_topic_id = topic_ids(draw) if with_ids else lambda: NO_TOPIC_ID
    topic_admin = TopicAdmin(broker_id, session, metadata, topic_configs, config, new_topic_id, spawn)
    offsets_topic = InternalTopic(config, topic_admin, metadata, spawn, log)
    ports = Ports(clock, around.call_later, spawn, around.randomness, log)
    groups = replicas.listener = GroupCoordinator(config, offsets_topic, ports)
    receiver = CommandReceiver(replicas, metadata, topic_configs, log)
    receiver.on_deleted = groups.partitions_deleted
    config_receiver = ConfigReceiver(broker_id, around.dynamic, topic_configs, replicas, log)
    partition_admin = PartitionAdmin(metadata, dispatcher.slices)
    config_receiver.unclean_changed = partition_admin.unclean_settings_changed
    config_changes = ConfigChanges(session, config_receiver.changed, clock, log)
    loggers = LoggerLevels(log)
    patience_ms = config.zookeeper_session_timeout_ms
    probe = StoreProbe(me, metadata.cluster_id, around.contact, patience_ms)
    slots = config.max_incremental_fetch_session_cache_slots
    parts = BrokerParts(
        logs=logs,
        metadata=metadata,
        topic_configs=topic_configs,
        topic_admin=topic_admin,
        partition_admin=partition_admin,
        config_admin=ConfigAdmin(broker_id, session, metadata, config_changes, loggers, around.dynamic, patience_ms),
        config_changes=config_changes,
        loggers=loggers,
        replicas=replicas,
        sessions=FetchSessions(slots, lambda: draw(31), metadata.name_of, config.fetch_session_partitions_max),
        offsets_topic=offsets_topic,
        groups=groups,
        receiver=receiver,
        dispatcher=dispatcher,
        peering=peering,
        cleaner=cleaner_of(around.dynamic, logs, around.worker, clock.now_ms, log),
        record_jobs=_record_jobs(around),
        condition=BrokerHealth(probe, metadata, replicas, dispatcher.slices),
    )
    parts.dispatcher.add(_routes(around, parts))
    return parts


def _record_jobs(around: Surroundings) -> JobQueue:
    """The queue of jobs on records; its bounds are read when a job comes, since they change at run time."""
    return JobQueue(
        around.record_worker,
        lambda: around.config.record_workers,
        lambda: around.config.record_waiting_bytes_max,
        around.log,
    )


def _routes(around: Surroundings, parts: BrokerParts) -> list[Route]:
    """Who serves what: the table of all handlers."""
    config, clock, broker_id = around.config, around.clock, around.identity.broker_id
    metadata, replicas, groups, later = parts.metadata, parts.replicas, parts.groups, parts.dispatcher.respond_later
    slices = parts.dispatcher.slices
    note_bytes_max, peering = config.offset_metadata_max_bytes, parts.inter_broker
    brokers = InterBrokerGuard(peering.listener, peering.itself, is_clustered=around.is_clustered)
    followers = ReplicaFetches(brokers.check_listener, peering.quotas.leader, privileged=around.is_clustered)
    origin = CommandOrigin(around.session, broker_id)

    def coordinates_transactions() -> bool:
        """Whether another broker may: on an embedded store all are ours, on ZooKeeper one may be Apache Kafka's."""
        may_be_others = bool(config.zookeeper_connect) and len(metadata.brokers) > 1
        return may_be_others or TRANSACTIONS_TOPIC in metadata.topics

    requests = ControllerRequests(lambda: parts.admin.partitions.controller)
    itself = ConditionSource(parts.health, later, slices)
    return [
        ProduceHandler(
            replicas,
            clock,
            later,
            around.call_later,
            lambda: TRANSACTIONS_TOPIC in metadata.topics,
            parts.record_jobs,
            around.contact if config.weak_acks_need_store else NO_DOUBT,
        ).route(),
        FetchHandler(
            replicas,
            parts.fetch_sessions,
            clock,
            around.call_later,
            readers=Readers(
                followers, None if config.replica_selector_class is None else RackAwareReplicaSelector(metadata)
            ),
            conversions=DownConversions(parts.record_jobs, later, bytes_max=config.fetch_converted_bytes_max),
            bytes_max=config.fetch_max_bytes,
        ).route(),
        *OffsetsHandler(replicas, later, parts.record_jobs, brokers.check_listener).routes(),
        *RecordsHandler(replicas).routes(),
        *LogDirsHandler(parts.logs, around.log).routes(),
        MarkersHandler(replicas, clock, brokers, later, around.call_later).route(),
        ProducerIdHandler(peering.producer_ids, later, coordinates_transactions).route(),
        *ControlHandler(parts.receiver, origin, brokers, later, slices, around.log).routes(),
        *guarded(ControllerRequestsHandler(requests, later, slices).routes(), brokers.check),
        ApiVersionsHandler(around.identity.cluster_id, broker_id).route(),
        *SaslHandler().routes(),
        *ClusterHandler(metadata).routes(),
        MetadataHandler(metadata, parts.offsets_topic.auto_create).route(),
        TopicPagesHandler(metadata, partitions_max=config.max_request_partition_size_limit).route(),
        *TopicsHandler(parts.admin.topics, metadata, later, slices).routes(),
        *PartitionsHandler(parts.admin.topics, parts.admin.partitions, later, slices).routes(),
        ConfigsHandler(
            broker_id, around.dynamic, metadata, parts.topic_configs.config_of, parts.admin.loggers, itself
        ).route(),
        *AlterConfigsHandler(parts.admin.configs, metadata, later, slices).routes(),
        FindCoordinatorHandler(
            parts.offsets_topic, metadata, coordinates_transactions=coordinates_transactions
        ).route(),
        ConsumerGroupsHandler().route(),
        *GroupsHandler(groups).routes(),
        *GroupOffsetsHandler(groups, metadata, clock, metadata_bytes_max=note_bytes_max).routes(),
    ]


def network_limits(config: Config, descriptors_max: int) -> tuple[NetworkLimits, ConnectionLimits]:
    """The network's numbers, from the configuration and the descriptors that there are for connections."""
    return (
        NetworkLimits(
            processors=config.num_network_threads,
            processor_connections_max=config.processor_connections_max,
            connections_max=config.max_connections,
            descriptors_max=descriptors_max,
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
