"""The replica fetchers of this broker's followers, as the configuration sets them up."""

from __future__ import annotations

from sordini.broker.cluster.identity import LocalBroker
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.wiring.deps import Runtime
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.fetching.fetcher_manager import ReplicaFetcherManager
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.inter_broker_versions import versions_for
from sordini.replication.ports import BrokerLinks
from sordini.replication.replica_throttling import ReplicaQuota


def fetch_settings(config: Config) -> FetchSettings:
    """How followers fetch."""
    return FetchSettings(
        wait_max_ms=config.replica_fetch_wait_max_ms,
        bytes_min=config.replica_fetch_min_bytes,
        partition_bytes_max=config.replica_fetch_max_bytes,
        response_bytes_max=config.replica_fetch_response_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
    )


def wire_fetchers(
    dynamic: DynamicConfig, local: LocalBroker, quota: ReplicaQuota, links: BrokerLinks, runtime: Runtime
) -> ReplicaFetcherManager:
    """Fetchers whose number follows num.replica.fetchers."""
    config = dynamic.config
    protocol = config.inter_broker_protocol_version
    deps = FetcherDeps(
        local.broker_id,
        local.epoch,
        versions_for(protocol.release, protocol.step),
        fetch_settings(config),
        quota,
        runtime.clock,
        runtime.log,
    )
    fetchers = ReplicaFetcherManager(deps, links, runtime.spawn, per_leader=config.num_replica_fetchers)
    dynamic.on_change(lambda now: fetchers.resize(now.num_replica_fetchers))
    return fetchers
