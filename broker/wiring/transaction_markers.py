"""How the markers of transactions reach the leaders of their partitions."""

from __future__ import annotations

from sordini.broker.cluster.identity import LocalBroker
from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.transactions.local_markers import LocalMarkers
from sordini.broker.transactions.marker_sender import MarkerSender
from sordini.broker.transactions.markers import MarkerLog
from sordini.broker.transactions.remote_markers import RemoteMarkers
from sordini.broker.wiring.inter_broker import InterBroker
from sordini.replication.replica_set import ReplicaSet


def wire_markers(
    local: LocalBroker,
    metadata: MetadataCache,
    replicas: ReplicaSet,
    groups: GroupCoordinator,
    inter_broker: InterBroker,
    topics: TopicAdmin,
    request_timeout_ms: int,
    ports: Ports,
) -> MarkerSender:
    """Build the sender; it connects when there are markers."""
    links, version = inter_broker.links, inter_broker.transport.versions.write_txn_markers
    remote = RemoteMarkers(local.broker_id, links, version, request_timeout_ms, ports)
    return MarkerSender(
        metadata, LocalMarkers(replicas, MarkerLog(groups), ports), remote, topics.partition_count, ports
    )
