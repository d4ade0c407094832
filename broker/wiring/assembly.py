"""The parts of a broker between its ports and its sockets, built in one place."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.configuration.admin import ConfigAdmin
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.logger_levels import LoggerLevels
from sordini.broker.configuration.receiver import ConfigReceiver, read_settings, warn_of_format
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.control.command_receiver import CommandReceiver
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.ports import Ports
from sordini.broker.dispatch import Dispatcher
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.offsets_topic import offsets_topic_spec
from sordini.broker.membership.health import BrokerHealth, StoreProbe
from sordini.broker.membership.identity import LocalBroker
from sordini.broker.record_jobs.queue import JobQueue
from sordini.broker.requests.fetch_sessions import FetchSessions
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.partition_admin import PartitionAdmin
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.transactions.state_topic import state_topic_spec
from sordini.broker.wiring.client_quotas import client_quotas
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.handler_table import routes
from sordini.broker.wiring.inter_broker import InterBroker, wire_inter_broker
from sordini.broker.wiring.log_cleaner import wire_cleaner
from sordini.broker.wiring.parts import AdminParts, BrokerParts
from sordini.broker.wiring.prepared_requests import prepare_requests
from sordini.broker.wiring.security import wire_security
from sordini.broker.wiring.transaction_markers import wire_markers
from sordini.broker.wiring.transaction_verification import wire_verification
from sordini.protocol.types import NO_TOPIC_ID
from sordini.replication import replica_set
from sordini.replication.inter_broker import versions_for
from sordini.replication.metadata_store.configs import ConfigChanges
from sordini.replication.metadata_store.paths import topic_entity
from sordini.replication.metadata_store.topics import topic_ids
from sordini.replication.ports import Logger, Session
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.log_manager import LogManager


def topic_configs_of(dynamic: DynamicConfig, session: Session, log: Logger) -> TopicConfigs:
    """The topics' configurations, read through a session. An unreadable one counts as empty."""

    async def read_overrides(topic: str) -> Mapping[str, str]:
        settings = await read_settings(session, topic_entity(topic), log)
        warn_of_format(log, dynamic.config, topic_entity(topic), settings)
        return settings

    return TopicConfigs(dynamic, read_overrides)


def assemble(deps: BrokerDeps, topic_configs: TopicConfigs, logs: LogManager) -> BrokerParts:
    """Build the parts and register the handlers; nothing runs yet."""
    config, dynamic, runtime = deps.config, deps.dynamic, deps.runtime
    identity, session = deps.cluster.identity, deps.cluster.session
    broker_id, clock, log, wait_ms = identity.broker_id, runtime.clock, runtime.log, config.request_timeout_ms
    uses_topic_ids = _uses_topic_ids(config)
    metadata = MetadataCache(identity.cluster_id, uses_topic_ids=uses_topic_ids)
    dispatcher = Dispatcher(runtime.spawn, log)
    session.on_state(dispatcher.store_error_codes.session_changed)
    local = LocalBroker(broker_id, lambda: receiver.broker_epoch, session)
    inter_broker = wire_inter_broker(local, dynamic, topic_configs, metadata, dispatcher, deps.network, runtime)
    logs.cordon(config.cordoned_directories)
    dynamic.on_change(lambda now: logs.cordon(now.cordoned_directories))
    replicas = _replica_set(deps, topic_configs, logs, metadata, inter_broker)
    new_id = topic_ids(runtime.randomness.getrandbits) if uses_topic_ids else lambda: NO_TOPIC_ID
    topic_admin = TopicAdmin(broker_id, session, metadata, topic_configs, config, new_id, runtime.spawn)
    offsets_topic = InternalTopic(offsets_topic_spec(config), config, topic_admin, metadata, runtime.spawn, log)
    ports = Ports(clock, runtime.call_later, runtime.spawn, runtime.randomness, log)
    groups = GroupCoordinator(config, offsets_topic, ports, is_guarded=config.transactional_newest_connection_enable)
    transactions_topic = InternalTopic(state_topic_spec(config), config, topic_admin, metadata, runtime.spawn, log)
    markers = wire_markers(local, metadata, replicas, groups, inter_broker, topic_admin, wait_ms, ports)
    transactions = TransactionCoordinator(config, transactions_topic, inter_broker.producer_ids, markers, ports)
    replicas.leadership_listeners += [groups.runtime, transactions.runtime]
    verification = wire_verification(broker_id, metadata, transactions, inter_broker, dynamic, runtime)
    receiver = CommandReceiver(replicas, metadata, topic_configs, log)
    receiver.on_deleted = groups.partitions_deleted
    config_receiver = ConfigReceiver(broker_id, dynamic, topic_configs, replicas, log)
    partition_admin = PartitionAdmin(metadata, dispatcher.slices)
    config_receiver.unclean_changed = partition_admin.unclean_settings_changed
    config_changes = ConfigChanges(session, config_receiver.changed, clock, log)
    loggers, timeout_ms = LoggerLevels(log), config.zookeeper_session_timeout_ms
    config_admin = ConfigAdmin(broker_id, session, metadata, config_changes, loggers, dynamic, timeout_ms)
    security = wire_security(deps, dispatcher)
    quotas = client_quotas(config, log)
    config_receiver.user_changed, config_receiver.quotas_changed = security.users.changed, quotas.changed
    parts = BrokerParts(
        logs=logs,
        cleaner=wire_cleaner(dynamic, logs, deps.workers.cleaner, clock.now_ms, log),
        record_jobs=_record_jobs(deps),
        metadata=metadata,
        topic_configs=topic_configs,
        config_changes=config_changes,
        admin=AdminParts(topic_admin, partition_admin, config_admin, loggers),
        replicas=replicas,
        fetch_sessions=_fetch_sessions(deps, metadata),
        offsets_topic=offsets_topic,
        groups=groups,
        transactions_topic=transactions_topic,
        transactions=transactions,
        verification=verification,
        receiver=receiver,
        inter_broker=inter_broker,
        dispatcher=dispatcher,
        health=_health(deps, local, metadata, replicas, dispatcher),
        security=security,
        quotas=quotas,
    )
    dispatcher.add(routes(deps, parts))
    prepare_requests(deps, parts)
    return parts


def _replica_set(
    deps: BrokerDeps, topic_configs: TopicConfigs, logs: LogManager, metadata: MetadataCache, inter_broker: InterBroker
) -> ReplicaSet:
    clock = deps.runtime.clock
    return ReplicaSet(
        deps.cluster.identity.broker_id,
        logs,
        replica_set.ReplicaSetDeps(
            topic_configs.settings_of,
            metadata.may_exist,
            metadata.name_of,
            clock.now_ms,
            clock.monotonic_ms,
            deps.runtime.log,
            fetchers=inter_broker.fetchers,
            peers=inter_broker.peers,
            truncates_before_fetch=not inter_broker.transport.versions.truncates_on_fetch,
        ),
    )


def _uses_topic_ids(config: Config) -> bool:
    protocol = config.inter_broker_protocol_version
    return versions_for(protocol.release, protocol.step).uses_topic_ids


def _health(
    deps: BrokerDeps, local: LocalBroker, metadata: MetadataCache, replicas: ReplicaSet, dispatcher: Dispatcher
) -> BrokerHealth:
    timeout_ms = deps.config.zookeeper_session_timeout_ms
    probe = StoreProbe(local, metadata.cluster_id, deps.cluster.contact, timeout_ms)
    return BrokerHealth(probe, metadata, replicas, dispatcher.slices)


def _fetch_sessions(deps: BrokerDeps, metadata: MetadataCache) -> FetchSessions:
    config, draw = deps.config, deps.runtime.randomness.getrandbits
    slots = config.max_incremental_fetch_session_cache_slots
    return FetchSessions(slots, lambda: draw(31), metadata.name_of, config.fetch_session_partitions_max)


def _record_jobs(deps: BrokerDeps) -> JobQueue:
    """The queue of jobs on records; its bounds are read at each job, since they change at run time."""
    return JobQueue(
        deps.workers.records,
        lambda: deps.config.record_workers,
        lambda: deps.config.record_waiting_bytes_max,
        deps.runtime.log,
    )
