"""Which handler serves which API: the table of all routes."""

from __future__ import annotations

from sordini.broker.control.command_origin import CommandOrigin
from sordini.broker.dispatch import Route
from sordini.broker.handlers.alter_configs import AlterConfigsHandler
from sordini.broker.handlers.api_versions import ApiVersionsHandler
from sordini.broker.handlers.cluster import ClusterHandler
from sordini.broker.handlers.configs import ConditionSource, ConfigsHandler
from sordini.broker.handlers.consumer_groups import ConsumerGroupsHandler
from sordini.broker.handlers.controller_commands import ControlHandler
from sordini.broker.handlers.controller_requests import ControllerRequestsHandler
from sordini.broker.handlers.down_conversion import DownConversions
from sordini.broker.handlers.fetch import FetchHandler, Readers
from sordini.broker.handlers.find_coordinator import FindCoordinatorHandler
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
from sordini.broker.handlers.tail_fetch import TailFetches
from sordini.broker.handlers.topic_pages import TopicPagesHandler
from sordini.broker.handlers.topics import TopicsHandler
from sordini.broker.handlers.txn_markers import MarkersHandler
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.prepared_requests import doubt_of_weak_acks, has_transaction_coordinators
from sordini.replication.controller.requests import ControllerRequests


def routes(deps: BrokerDeps, parts: BrokerParts) -> list[Route]:
    """Every route of the broker."""
    cluster, transport = deps.cluster, parts.inter_broker.transport
    brokers = InterBrokerGuard(transport.listener, transport.local_peer, is_clustered=cluster.is_clustered)

    def coordinates_transactions() -> bool:
        """Whether another broker may: on ZooKeeper one can be an Apache Kafka broker, on an embedded store none is."""
        may_be_others = bool(deps.config.zookeeper_connect) and len(parts.metadata.brokers) > 1
        return may_be_others or TRANSACTIONS_TOPIC in parts.metadata.topics

    return [
        *_record_routes(deps, parts, brokers),
        *_controller_routes(deps, parts, brokers),
        *_admin_routes(deps, parts),
        ProducerIdHandler(
            parts.inter_broker.producer_ids, parts.dispatcher.respond_later, coordinates_transactions
        ).route(),
        FindCoordinatorHandler(
            parts.offsets_topic, parts.metadata, coordinates_transactions=coordinates_transactions
        ).route(),
        ConsumerGroupsHandler().route(),
        *GroupsHandler(parts.groups).routes(),
        *GroupOffsetsHandler(
            parts.groups,
            parts.metadata,
            deps.runtime.clock,
            metadata_bytes_max=deps.config.offset_metadata_max_bytes,
        ).routes(),
        ApiVersionsHandler(cluster.identity.cluster_id, cluster.identity.broker_id).route(),
        *SaslHandler().routes(),
    ]


def _record_routes(deps: BrokerDeps, parts: BrokerParts, brokers: InterBrokerGuard) -> list[Route]:
    """Records and offsets: Produce, Fetch, ListOffsets, DeleteRecords, log directories, transaction markers."""
    config, clock, call_later = deps.config, deps.runtime.clock, deps.runtime.call_later
    metadata, replicas, later = parts.metadata, parts.replicas, parts.dispatcher.respond_later
    followers = ReplicaFetches(
        brokers.check_listener, parts.inter_broker.quotas.leader, privileged=deps.cluster.is_clustered
    )
    return [
        ProduceHandler(
            replicas,
            clock,
            later,
            call_later,
            lambda: has_transaction_coordinators(parts),
            parts.record_jobs,
            doubt_of_weak_acks(deps),
        ).route(),
        FetchHandler(
            replicas,
            parts.fetch_sessions,
            clock,
            call_later,
            readers=Readers(
                followers,
                None if config.replica_selector_class is None else RackAwareReplicaSelector(metadata),
                TailFetches(replicas, call_later),
            ),
            conversions=DownConversions(parts.record_jobs, later, bytes_max=config.fetch_converted_bytes_max),
            bytes_max=config.fetch_max_bytes,
        ).route(),
        *OffsetsHandler(replicas, later, parts.record_jobs, brokers.check_listener).routes(),
        *RecordsHandler(replicas).routes(),
        *LogDirsHandler(parts.logs, deps.runtime.log).routes(),
        MarkersHandler(replicas, clock, brokers, later, call_later).route(),
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
    return [
        *ClusterHandler(metadata).routes(),
        MetadataHandler(metadata, parts.offsets_topic.auto_create).route(),
        TopicPagesHandler(metadata, partitions_max=deps.config.max_request_partition_size_limit).route(),
        *TopicsHandler(admin.topics, metadata, later, slices).routes(),
        *PartitionsHandler(admin.topics, admin.partitions, later, slices).routes(),
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
