"""Which handler serves which API: the table of all routes."""

from __future__ import annotations

from sordini.broker.administration.activity.activity_handler import BrokerActivityHandler
from sordini.broker.administration.alter_configs_handler import AlterConfigsHandler
from sordini.broker.administration.client_quotas_handler import ClientQuotasHandler
from sordini.broker.administration.describe_configs_handler import ConditionSource, ConfigsHandler, EntityConfigs
from sordini.broker.administration.lag.progress_handler import GroupProgressHandler
from sordini.broker.administration.lag.unread_handler import UnreadRecordsHandler
from sordini.broker.administration.log_dirs_handler import LogDirsHandler
from sordini.broker.administration.segments_handler import SegmentsHandler
from sordini.broker.cluster.cluster_handler import ClusterHandler
from sordini.broker.cluster.commands.command_origin import CommandOrigin
from sordini.broker.cluster.commands.commands_handler import ControlHandler
from sordini.broker.cluster.controller_requests_handler import ControllerRequestsHandler
from sordini.broker.configuration.entity_admin import EntityAdmin
from sordini.broker.coordinators.find_coordinator_handler import FindCoordinatorHandler
from sordini.broker.coordinators.newest_connection import NewestConnections
from sordini.broker.groups.consumer_describe_handler import ConsumerDescribeHandler
from sordini.broker.groups.consumer_heartbeat_handler import DISABLED, NO_TOPIC_IDS, ConsumerHeartbeatHandler
from sordini.broker.groups.group_history_handler import GroupHistoryHandler
from sordini.broker.groups.group_listing_handler import GroupListingHandler
from sordini.broker.groups.group_members_handler import GroupMembersHandler
from sordini.broker.groups.offset_commit_handler import OffsetCommitHandler
from sordini.broker.groups.offset_delete_handler import OffsetDeleteHandler
from sordini.broker.groups.offset_fetch_handler import OffsetFetchHandler
from sordini.broker.groups.share.end_offsets import ClusterEndOffsets
from sordini.broker.groups.share_describe_handler import ShareDescribeHandler
from sordini.broker.groups.share_heartbeat_handler import NO_TOPIC_IDS as SHARES_NEED_TOPIC_IDS
from sordini.broker.groups.share_heartbeat_handler import ShareHeartbeatHandler
from sordini.broker.groups.share_offsets_handler import ShareOffsetsHandler
from sordini.broker.metrics.telemetry.client_instances_handler import ClientInstancesHandler
from sordini.broker.metrics.telemetry.telemetry_handler import TelemetryHandler
from sordini.broker.records.delete_records_handler import RecordsHandler
from sordini.broker.records.down_conversion import DownConversions
from sordini.broker.records.fetch_handler import FetchHandler
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.list_offsets_handler import ListOffsetsHandler
from sordini.broker.records.prepared.prepared_guard import PreparedGuard
from sordini.broker.records.produce_handler import ProduceHandler, RecordChecks
from sordini.broker.requests.api_versions_handler import ApiVersionsHandler
from sordini.broker.requests.call import Route
from sordini.broker.requests.quotas.mutation_quota import MutationQuotas
from sordini.broker.requests.request_checks import InterBrokerGuard, guarded
from sordini.broker.security.acls.acls_handler import AclsHandler
from sordini.broker.security.audit.change_events import ChangeEvents
from sordini.broker.security.rules.rule import RuleDeps, authorized
from sordini.broker.security.sasl.sasl_handler import SaslHandler
from sordini.broker.security.sasl.scram_credentials_handler import ScramCredentialsHandler
from sordini.broker.share_state.share_state_handler import ShareStateHandler
from sordini.broker.topics.auto_creation import AutoCreation
from sordini.broker.topics.describe_partitions_handler import TopicPagesHandler
from sordini.broker.topics.metadata_handler import MetadataHandler
from sordini.broker.topics.partitions_handler import PartitionsHandler
from sordini.broker.topics.topics_handler import TopicsHandler
from sordini.broker.transactions.init_producer_id_handler import ProducerIdHandler
from sordini.broker.transactions.markers import MarkerLog
from sordini.broker.transactions.transaction_listing_handler import TransactionListingHandler
from sordini.broker.transactions.transactions_handler import TransactionsHandler
from sordini.broker.transactions.txn_markers_handler import MarkersHandler
from sordini.broker.transactions.txn_offset_commit_handler import TxnOffsetCommitHandler
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.fetch_readers import fetch_readers, inter_broker_guard
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.prepared_requests import doubt_of_leader_acks
from sordini.broker.wiring.shares import share_routes
from sordini.replication.controller.requests import ControllerRequests


def routes(deps: BrokerDeps, parts: BrokerParts) -> list[Route]:
    """Every route of the broker, with the rules of authorization and the audit log in front where there are some."""
    found, access, itself = _routes(deps, parts), parts.security.access, parts.inter_broker.transport.local_peer
    sessions = parts.fetch_sessions
    if access.authorizer is not None:
        rule_deps = RuleDeps(access, parts.metadata, deps.config.auto_create_topics_enable)
        parts.dispatcher.prepared.guard = PreparedGuard(access.authorizer, rule_deps, sessions)
        found = authorized(found, rule_deps, itself)
    found = parts.first_metadata.in_front_of(found)
    if parts.security.audit.is_on:
        changes = ChangeEvents(parts.security.audit, parts.dispatcher.slices, itself, deps.runtime.log)
        found = changes.audited(found)
    if deps.interposer is not None:
        parts.dispatcher.prepared.guard = lambda _call, _request: None
        found = deps.interposer.interposed(found, parts.dispatcher, parts.metadata)
    return found


def _routes(deps: BrokerDeps, parts: BrokerParts) -> list[Route]:
    cluster, brokers = deps.cluster, inter_broker_guard(deps, parts)
    return [
        *_record_routes(deps, parts, brokers),
        *_controller_routes(deps, parts, brokers),
        *_admin_routes(deps, parts),
        *_transaction_routes(deps, parts, brokers),
        *guarded(ShareStateHandler(parts.share_states.coordinator).routes(), brokers.check),
        FindCoordinatorHandler(
            parts.offsets_topic, parts.transactions_topic, parts.share_states.topic, parts.metadata
        ).route(),
        ConsumerDescribeHandler(parts.groups, parts.metadata.name_of).route(),
        ConsumerHeartbeatHandler(parts.groups, parts.topic_patterns, unserved=_unserved(deps, parts)).route(),
        *_share_group_routes(deps, parts),
        *GroupMembersHandler(parts.groups).routes(),
        *GroupListingHandler(parts.groups).routes(),
        GroupHistoryHandler(parts.groups).route(),
        GroupProgressHandler(parts.groups, parts.lag.commits, deps.runtime.clock).route(),
        OffsetCommitHandler(
            parts.groups,
            parts.metadata,
            deps.runtime.clock,
            metadata_bytes_max=deps.config.offset_metadata_max_bytes,
        ).route(),
        OffsetFetchHandler(parts.groups, parts.metadata).route(),
        OffsetDeleteHandler(parts.groups, parts.metadata).route(),
        TxnOffsetCommitHandler(
            parts.groups,
            parts.verification.gate,
            parts.metadata,
            deps.runtime.clock,
            metadata_bytes_max=deps.config.offset_metadata_max_bytes,
        ).route(),
        ApiVersionsHandler(
            cluster.identity.cluster_id,
            cluster.identity.broker_id,
            raises_epochs=deps.config.cluster_exclusive,
            takes_telemetry=parts.telemetry is not None,
        ).route(),
        *SaslHandler().routes(),
        *_telemetry_routes(parts),
        *share_routes(deps, parts.led_shares),
    ]


def _telemetry_routes(parts: BrokerParts) -> list[Route]:
    """What clients push, where they may, and who they are."""
    telemetry = parts.telemetry
    pushes = [] if telemetry is None else TelemetryHandler(telemetry, parts.dispatcher.respond_later).routes()
    return [*pushes, ClientInstancesHandler(telemetry).route()]


def _unserved(deps: BrokerDeps, parts: BrokerParts) -> str | None:
    """Why members of consumer groups are refused; None where they are served."""
    if not deps.config.serves_consumer_groups:
        return DISABLED
    return None if parts.metadata.uses_topic_ids else NO_TOPIC_IDS


def _share_group_routes(deps: BrokerDeps, parts: BrokerParts) -> list[Route]:
    """Members and administrators of share groups (KIP-932)."""
    unserved = None if parts.metadata.uses_topic_ids else SHARES_NEED_TOPIC_IDS
    end_offsets = ClusterEndOffsets(
        deps.cluster.identity.broker_id,
        parts.replicas,
        parts.metadata,
        parts.inter_broker.links,
        deps.runtime.spawn,
        deps.config.request_timeout_ms,
    )
    return [
        ShareHeartbeatHandler(parts.groups, unserved=unserved).route(),
        ShareDescribeHandler(parts.groups, parts.metadata.name_of).route(),
        *ShareOffsetsHandler(parts.groups, parts.metadata, end_offsets).routes(),
    ]


def _record_routes(deps: BrokerDeps, parts: BrokerParts, brokers: InterBrokerGuard) -> list[Route]:
    """Records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, log directories, transaction markers."""
    config, clock, call_later = deps.config, deps.runtime.clock, deps.runtime.call_later
    replicas, later = parts.replicas, parts.dispatcher.respond_later
    leaders = KnownLeaders(replicas, parts.metadata)
    return [
        ProduceHandler(
            leaders,
            clock,
            later,
            call_later,
            parts.verification.gate,
            RecordChecks(parts.record_jobs, parts.schemas),
            doubt_of_leader_acks(deps),
        ).route(),
        FetchHandler(
            leaders,
            parts.fetch_sessions,
            clock,
            call_later,
            readers=fetch_readers(deps, parts),
            conversions=DownConversions(parts.record_jobs, later, bytes_max=config.fetch_converted_bytes_max),
            bytes_max=config.fetch_max_bytes,
        ).route(),
        *ListOffsetsHandler(replicas, later, parts.record_jobs).routes(),
        UnreadRecordsHandler(replicas, parts.lag.appends, clock).route(),
        SegmentsHandler(replicas, parts.lag.appends, clock).route(),
        *RecordsHandler(replicas).routes(),
        *LogDirsHandler(parts.logs, deps.runtime.log).routes(),
        MarkersHandler(
            replicas,
            MarkerLog(parts.groups),
            clock,
            brokers,
            later,
            call_later,
            NewestConnections() if config.transactional_stale_connection_fencing_enable else None,
        ).route(),
    ]


def _transaction_routes(deps: BrokerDeps, parts: BrokerParts, brokers: InterBrokerGuard) -> list[Route]:
    """Producer ids, transactional producers, and administrators of transactions."""
    transactions = parts.transactions
    return [
        ProducerIdHandler(parts.inter_broker.producer_ids, transactions, parts.dispatcher.respond_later).route(),
        *TransactionsHandler(
            transactions, parts.offsets_topic, parts.metadata, brokers, raises_epochs=deps.config.cluster_exclusive
        ).routes(),
        *TransactionListingHandler(transactions, deps.runtime.clock).routes(),
    ]


def _controller_routes(deps: BrokerDeps, parts: BrokerParts, brokers: InterBrokerGuard) -> list[Route]:
    """Commands of the controller to this broker, and requests of brokers to the controller."""
    origin = CommandOrigin(deps.cluster.session, deps.cluster.identity.broker_id)
    requests = ControllerRequests(lambda: parts.admin.partitions.controller)
    later, slices = parts.dispatcher.respond_later, parts.dispatcher.slices
    return [
        *ControlHandler(parts.receiver, origin, brokers, later, slices, deps.runtime.log).routes(),
        *guarded(ControllerRequestsHandler(requests, later, slices).routes(), brokers.check),
    ]


def _admin_routes(deps: BrokerDeps, parts: BrokerParts) -> list[Route]:
    """Metadata, topics, partitions and settings."""
    metadata, admin, later, slices = (
        parts.metadata,
        parts.admin,
        parts.dispatcher.respond_later,
        parts.dispatcher.slices,
    )

    timeout_ms = deps.config.zookeeper_session_timeout_ms
    security, quotas = parts.security, parts.quotas
    entities = EntityAdmin(deps.cluster.session, parts.config_changes, timeout_ms)
    mutations = MutationQuotas(quotas, deps.runtime.clock.monotonic_ms)

    topics = (parts.offsets_topic, parts.transactions_topic, parts.share_states.topic)
    internal = {topic.name: topic.create for topic in topics}
    auto_creation = AutoCreation(admin.topics, metadata, deps.config, deps.runtime.spawn, internal)

    return [
        *AclsHandler(parts.security.acls, later).routes(),
        *ScramCredentialsHandler(security.users, entities, security.access, later).routes(),
        *ClientQuotasHandler(quotas, entities, security.access, later).routes(),
        *ClusterHandler(metadata).routes(),
        BrokerActivityHandler(deps.cluster.identity.broker_id, parts.activity, deps.runtime.clock).route(),
        MetadataHandler(metadata, auto_creation.start).route(),
        TopicPagesHandler(metadata, partitions_max=deps.config.max_request_partition_size_limit).route(),
        *TopicsHandler(admin.topics, metadata, later, slices, mutations).routes(),
        *PartitionsHandler(admin.topics, admin.partitions, later, slices, mutations).routes(),
        ConfigsHandler(
            deps.cluster.identity.broker_id,
            deps.dynamic,
            metadata,
            parts.topic_configs.config_of,
            EntityConfigs(parts.group_configs, parts.client_metrics),
            admin.loggers,
            ConditionSource(parts.health, later, slices),
        ).route(),
        *AlterConfigsHandler(
            admin.configs, metadata, parts.group_configs, parts.client_metrics, later, slices
        ).routes(),
    ]
