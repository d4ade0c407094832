"""The parts of a broker between its ports and its sockets, built in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.broker.administration.activity.broker_activity import BrokerActivity
from sordini.broker.administration.config_admin import ConfigAdmin
from sordini.broker.administration.config_receiver import ConfigReceiver, read_settings, warn_of_format
from sordini.broker.administration.lag.append_watch import AppendWatch
from sordini.broker.administration.lag.commit_watch import CommitWatch
from sordini.broker.administration.logger_levels import LoggerLevels
from sordini.broker.cluster.commands.command_receiver import CommandReceiver
from sordini.broker.cluster.health import BrokerHealth, StoreProbe
from sordini.broker.cluster.identity import LocalBroker
from sordini.broker.configuration.client_metrics_configs import ClientMetricsConfigs
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.share_group_configs import ShareGroupLimits
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.consumer.cluster_topics import ClusterTopics
from sordini.broker.groups.consumer.groups import ConsumerGroupDeps
from sordini.broker.groups.consumer.limits import ConsumerGroupLimits
from sordini.broker.groups.consumer.machine.topic_patterns import TopicPatterns
from sordini.broker.groups.consumer.topic_resolution import TopicResolver
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.offsets_topic import offsets_topic_spec
from sordini.broker.groups.share.groups import ShareGroupDeps
from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.broker.records.jobs.queue import CPU_MS_PER_MIB, DECODE_MS_PER_MIB, JobQueue
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.schemas.schema_check import SchemaCheck
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.topics.first_metadata import FirstMetadata
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.partition_admin import PartitionAdmin
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.transactions.state_topic import state_topic_spec
from sordini.broker.wiring.client_quotas import client_quotas
from sordini.broker.wiring.dead_letters import DeadLetterDeps
from sordini.broker.wiring.deps import BrokerDeps, Runtime
from sordini.broker.wiring.handler_table import routes
from sordini.broker.wiring.inter_broker import InterBroker, wire_inter_broker
from sordini.broker.wiring.log_cleaner import wire_cleaner
from sordini.broker.wiring.parts import AdminParts, BrokerParts, LagWatches
from sordini.broker.wiring.prepared_requests import prepare_requests
from sordini.broker.wiring.security import SecurityParts, wire_security
from sordini.broker.wiring.share_groups import wire_share_groups
from sordini.broker.wiring.share_state import wire_share_states
from sordini.broker.wiring.shares import wire_shares
from sordini.broker.wiring.telemetry import wire_telemetry
from sordini.broker.wiring.transaction_markers import wire_markers
from sordini.broker.wiring.transaction_verification import wire_verification
from sordini.protocol.types import NO_TOPIC_ID, TopicId
from sordini.replication import replica_set
from sordini.replication.inter_broker_versions import versions_for
from sordini.replication.metadata_store.configs import ConfigChanges
from sordini.replication.metadata_store.paths import topic_entity
from sordini.replication.metadata_store.topics import topic_ids
from sordini.replication.ports import Clock, Logger, Session
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.log_manager import LogManager
from sordini.system.clock import thread_ns


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
    metadata = MetadataCache(identity.cluster_id, uses_topic_ids=_uses_topic_ids(config))
    dispatcher = Dispatcher(runtime.spawn, log)
    session.on_state(dispatcher.fence.store_error_codes.session_changed)
    local = LocalBroker(broker_id, lambda: receiver.broker_epoch, session)
    inter_broker = wire_inter_broker(local, dynamic, topic_configs, metadata, dispatcher, deps.network, runtime)
    _cordon(logs, config, dynamic)
    replicas = _replica_set(deps, topic_configs, logs, metadata, inter_broker)
    topic_admin = TopicAdmin(broker_id, session, metadata, topic_configs, config, _new_topic_id(config, runtime))
    offsets_topic = InternalTopic(offsets_topic_spec(config), config, topic_admin, metadata, runtime.spawn, log)
    ports = Ports(clock, runtime.call_later, runtime.spawn, runtime.randomness, log)
    security = wire_security(deps, dispatcher)
    group_configs, client_metrics = GroupConfigs(dynamic, log), ClientMetricsConfigs(log)
    share_states = wire_share_states(deps, topic_admin, metadata, inter_broker, ports)
    leaders, share_limits = KnownLeaders(replicas, metadata), ShareGroupLimits(dynamic, group_configs)
    shares = wire_share_groups(config, share_limits, metadata, share_states.persister, ports)
    groups, patterns = _group_coordinator(deps, offsets_topic, ports, group_configs, metadata, security, shares)
    transactions_topic = InternalTopic(state_topic_spec(config), config, topic_admin, metadata, runtime.spawn, log)
    markers = wire_markers(local, metadata, replicas, groups, inter_broker, topic_admin, wait_ms, ports)
    transactions = TransactionCoordinator(config, transactions_topic, inter_broker.producer_ids, markers, ports)
    replicas.leadership_listeners += [groups.runtime, transactions.runtime, share_states.coordinator]
    receiver = CommandReceiver(replicas, metadata, topic_configs, log)
    receiver.on_deleted += [groups.partitions_deleted, share_states.coordinator.topics_deleted]
    config_receiver = ConfigReceiver(broker_id, dynamic, topic_configs, replicas, log)
    partition_admin, quotas = PartitionAdmin(metadata, dispatcher.slices), client_quotas(config, log)
    _follow_settings(config_receiver, partition_admin, group_configs, client_metrics, security, quotas)
    config_changes = ConfigChanges(session, config_receiver.changed, clock, log)
    loggers, timeout_ms, activity = LoggerLevels(log), config.zookeeper_session_timeout_ms, _activity(logs, clock)
    config_admin = ConfigAdmin(broker_id, session, metadata, config_changes, loggers, dynamic, timeout_ms)
    record_jobs, links = _record_jobs(deps), inter_broker.links
    letters = DeadLetterDeps(dynamic, topic_configs, share_limits, topic_admin, links)
    led_shares = wire_shares(deps, leaders, share_states.persister, letters, record_jobs, dispatcher.slices, ports)
    parts = BrokerParts(
        logs=logs,
        cleaner=wire_cleaner(dynamic, logs, deps.workers.cleaner, clock.now_ms, log, activity),
        record_jobs=record_jobs,
        schemas=_schema_check(deps, metadata, inter_broker),
        metadata=metadata,
        first_metadata=FirstMetadata(),
        topic_configs=topic_configs,
        group_configs=group_configs,
        client_metrics=client_metrics,
        config_changes=config_changes,
        admin=AdminParts(topic_admin, partition_admin, config_admin, loggers),
        replicas=replicas,
        fetch_sessions=_fetch_sessions(deps, metadata),
        offsets_topic=offsets_topic,
        groups=groups,
        topic_patterns=patterns,
        lag=LagWatches(AppendWatch(replicas), CommitWatch(groups)),
        activity=activity,
        transactions_topic=transactions_topic,
        transactions=transactions,
        verification=wire_verification(broker_id, metadata, transactions, inter_broker, dynamic, runtime),
        share_states=share_states,
        led_shares=led_shares,
        receiver=receiver,
        inter_broker=inter_broker,
        dispatcher=dispatcher,
        health=_health(deps, local, metadata, replicas, dispatcher),
        security=security,
        quotas=quotas,
        telemetry=wire_telemetry(deps, client_metrics),
    )
    _serve(deps, parts)
    return parts


def _serve(deps: BrokerDeps, parts: BrokerParts) -> None:
    parts.dispatcher.add(routes(deps, parts))
    prepare_requests(deps, parts)


def _new_topic_id(config: Config, runtime: Runtime) -> Callable[[], TopicId]:
    return topic_ids(runtime.randomness.getrandbits) if _uses_topic_ids(config) else lambda: NO_TOPIC_ID


def _activity(logs: LogManager, clock: Clock) -> BrokerActivity:
    made = BrokerActivity(clock, thread_ns)
    logs.on_segments_deleted(made.segments_deleted)
    return made


def _cordon(logs: LogManager, config: Config, dynamic: DynamicConfig) -> None:
    """No new log in cordoned directories, now and after each change."""
    logs.cordon(config.cordoned_directories)
    dynamic.on_change(lambda now: logs.cordon(now.cordoned_directories))


def _follow_settings(
    receiver: ConfigReceiver,
    partitions: PartitionAdmin,
    groups: GroupConfigs,
    client_metrics: ClientMetricsConfigs,
    security: SecurityParts,
    quotas: ClientQuotas,
) -> None:
    receiver.unclean_changed = partitions.unclean_settings_changed
    receiver.group_changed, receiver.client_metrics_changed = groups.changed, client_metrics.changed
    receiver.user_changed, receiver.quotas_changed = security.users.changed, quotas.changed


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


def _group_coordinator(
    deps: BrokerDeps,
    topic: InternalTopic,
    ports: Ports,
    group_configs: GroupConfigs,
    metadata: MetadataCache,
    security: SecurityParts,
    shares: ShareGroupDeps,
) -> tuple[GroupCoordinator, TopicPatterns]:
    """The coordinator, and the regular expressions that members of its groups subscribe by."""
    config, patterns = deps.config, TopicPatterns()
    limits = ConsumerGroupLimits(deps.dynamic, group_configs)
    consumers = ConsumerGroupDeps(
        ports,
        limits.of,
        ClusterTopics(metadata),
        TopicResolver(metadata, security.access, ports.clock, patterns).resolve,
        limits.is_offloaded,
        config.group_consumer_stale_connection_fencing_enable,
    )
    is_guarded = config.transactional_stale_connection_fencing_enable
    return GroupCoordinator(config, topic, ports, consumers, shares, is_guarded=is_guarded), patterns


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


def _schema_check(deps: BrokerDeps, metadata: MetadataCache, inter_broker: InterBroker) -> SchemaCheck:
    """With a queue of its own, so that values that take long leave the workers of other topics' records free."""
    clock, log = deps.runtime.clock, deps.runtime.log
    decoding = _record_jobs(deps, DECODE_MS_PER_MIB)
    return SchemaCheck(deps.config.schema_topic, metadata, inter_broker.links, clock.monotonic_ms, log, decoding)


def _record_jobs(deps: BrokerDeps, job_ms_max: int = CPU_MS_PER_MIB) -> JobQueue:
    """A queue of jobs on records; its bounds are read at each job, since they change at run time."""
    return JobQueue(
        deps.workers.records,
        lambda: deps.config.record_workers,
        lambda: deps.config.record_workers_queue_bytes_max,
        deps.runtime.log,
        job_ms_max,
    )
