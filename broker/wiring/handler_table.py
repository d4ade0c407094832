"""Which handler serves which API: the table of all routes."""

from __future__ import annotations

from sordini.broker.configuration.entity_admin import EntityAdmin
from sordini.broker.control.command_origin import CommandOrigin
from sordini.broker.dispatch import Route
from sordini.broker.handlers.acls import AclsHandler
from sordini.broker.handlers.alter_configs import AlterConfigsHandler
from sordini.broker.handlers.api_versions import ApiVersionsHandler
from sordini.broker.handlers.client_quotas import ClientQuotasHandler
from sordini.broker.handlers.cluster import ClusterHandler
from sordini.broker.handlers.configs import ConditionSource, ConfigsHandler
from sordini.broker.handlers.consumer_groups import ConsumerGroupsHandler
from sordini.broker.handlers.controller_commands import ControlHandler
from sordini.broker.handlers.controller_requests import ControllerRequestsHandler
from sordini.broker.handlers.down_conversion import DownConversions
from sordini.broker.handlers.fetch import FetchHandler
from sordini.broker.handlers.find_coordinator import FindCoordinatorHandler
from sordini.broker.handlers.group_history import GroupHistoryHandler
from sordini.broker.handlers.group_offsets import GroupOffsetsHandler
from sordini.broker.handlers.groups import GroupsHandler
from sordini.broker.handlers.init_producer_id import ProducerIdHandler
from sordini.broker.handlers.log_dirs import LogDirsHandler
from sordini.broker.handlers.metadata import MetadataHandler
from sordini.broker.handlers.offsets import OffsetsHandler
from sordini.broker.handlers.partitions import PartitionsHandler
from sordini.broker.handlers.produce import ProduceHandler
from sordini.broker.handlers.records import RecordsHandler
from sordini.broker.handlers.request_checks import InterBrokerGuard, guarded
from sordini.broker.handlers.sasl import SaslHandler
from sordini.broker.handlers.scram_credentials import ScramCredentialsHandler
from sordini.broker.handlers.topic_pages import TopicPagesHandler
from sordini.broker.handlers.topics import TopicsHandler
from sordini.broker.handlers.transaction_listing import TransactionListingHandler
from sordini.broker.handlers.transactions import TransactionsHandler
from sordini.broker.handlers.txn_markers import MarkersHandler
from sordini.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from sordini.broker.quotas.mutation_quota import MutationQuotas
from sordini.broker.security.audit.change_events import ChangeEvents, administrative_apis
from sordini.broker.security.rules.prepared_guard import PreparedGuard
from sordini.broker.security.rules.rule import RuleDeps, authorized
from sordini.broker.security.rules.table import rules
from sordini.broker.transactions.markers import MarkerLog
from sordini.broker.transactions.newest_connection import NewestConnections
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.fetch_readers import fetch_readers, inter_broker_guard
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.prepared_requests import doubt_of_weak_acks
from sordini.protocol.errors import ErrorCode
from sordini.replication.controller.requests import ControllerRequests


def routes(deps: BrokerDeps, parts: BrokerParts) -> list[Route]:
    """Every route of the broker, with the rules of authorization and the audit log in front where there are some."""
    found, access, itself = _routes(deps, parts), parts.security.access, parts.inter_broker.transport.local_peer
    sessions = parts.fetch_sessions
    table = rules(sessions)
    if access.authorizer is not None:
        rule_deps = RuleDeps(access, parts.metadata, deps.config.auto_create_topics_enable)
        parts.dispatcher.prepared.guard = PreparedGuard(access.authorizer, rule_deps, sessions)
        found = authorized(found, table, rule_deps, itself)
    if parts.security.audit.is_on:
        changes = ChangeEvents(parts.security.audit, parts.dispatcher.slices, itself, deps.runtime.log)
        found = changes.audited(found, administrative_apis(table))
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
        FindCoordinatorHandler(parts.offsets_topic, parts.transactions_topic, parts.metadata).route(),
        ConsumerGroupsHandler().route(),
        *GroupsHandler(parts.groups).routes(),
        GroupHistoryHandler(parts.groups).route(),
        *GroupOffsetsHandler(
            parts.groups,
            parts.metadata,
            deps.runtime.clock,
            metadata_bytes_max=deps.config.offset_metadata_max_bytes,
        ).routes(),
        TxnOffsetCommitHandler(
            parts.groups,
            parts.verification.gate,
            parts.metadata,
            deps.runtime.clock,
            metadata_bytes_max=deps.config.offset_metadata_max_bytes,
        ).route(),
        ApiVersionsHandler(
            cluster.identity.cluster_id, cluster.identity.broker_id, raises_epochs=deps.config.cluster_pure
        ).route(),
        *SaslHandler().routes(),
    ]


def _record_routes(deps: BrokerDeps, parts: BrokerParts, brokers: InterBrokerGuard) -> list[Route]:
    """Records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, log directories, transaction markers."""
    config, clock, call_later = deps.config, deps.runtime.clock, deps.runtime.call_later
    replicas, later = parts.replicas, parts.dispatcher.respond_later
    return [
        ProduceHandler(
            replicas,
            clock,
            later,
            call_later,
            parts.verification.gate,
            parts.record_jobs,
            doubt_of_weak_acks(deps),
        ).route(),
        FetchHandler(
            replicas,
            parts.fetch_sessions,
            clock,
            call_later,
            readers=fetch_readers(deps, parts),
            conversions=DownConversions(parts.record_jobs, later, bytes_max=config.fetch_converted_bytes_max),
            bytes_max=config.fetch_max_bytes,
        ).route(),
        *OffsetsHandler(replicas, later, parts.record_jobs).routes(),
        *RecordsHandler(replicas).routes(),
        *LogDirsHandler(parts.logs, deps.runtime.log).routes(),
        MarkersHandler(
            replicas,
            MarkerLog(parts.groups),
            clock,
            brokers,
            later,
            call_later,
            NewestConnections() if config.transactional_newest_connection_enable else None,
        ).route(),
    ]


def _transaction_routes(deps: BrokerDeps, parts: BrokerParts, brokers: InterBrokerGuard) -> list[Route]:
    """Producer ids, transactional producers, and administrators of transactions."""
    transactions = parts.transactions
    return [
        ProducerIdHandler(parts.inter_broker.producer_ids, transactions, parts.dispatcher.respond_later).route(),
        *TransactionsHandler(
            transactions, parts.offsets_topic, parts.metadata, brokers, raises_epochs=deps.config.cluster_pure
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

    def auto_create(name: str) -> ErrorCode:
        internal = parts.transactions_topic if name == parts.transactions_topic.name else parts.offsets_topic
        return internal.auto_create(name)

    return [
        *AclsHandler(parts.security.acls, later).routes(),
        *ScramCredentialsHandler(security.users, entities, security.access, later).routes(),
        *ClientQuotasHandler(quotas, entities, security.access, later).routes(),
        *ClusterHandler(metadata).routes(),
        MetadataHandler(metadata, auto_create).route(),
        TopicPagesHandler(metadata, partitions_max=deps.config.max_request_partition_size_limit).route(),
        *TopicsHandler(admin.topics, metadata, later, slices, mutations).routes(),
        *PartitionsHandler(admin.topics, admin.partitions, later, slices, mutations).routes(),
        ConfigsHandler(
            deps.cluster.identity.broker_id,
            deps.dynamic,
            metadata,
            parts.topic_configs.config_of,
            admin.loggers,
            ConditionSource(parts.health, later, slices),
        ).route(),
        *AlterConfigsHandler(admin.configs, metadata, later, slices).routes(),
    ]
