"""The fetchers of this broker's followers, as the configuration wants them."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.clock import Clock
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.dispatch import Spawn
from sordini.broker.network.ports import Log
from sordini.protocol.types import BrokerId
from sordini.replication.fetching.fetcher_manager import ReplicaFetcherManager
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.fetching.replica_fetcher import Surroundings
from sordini.replication.inter_broker import versions_for
from sordini.replication.ports import Links
from sordini.replication.replica_quota import ReplicaQuota


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


def fetchers_of(
    dynamic: DynamicConfig,
    broker: tuple[BrokerId, Callable[[], int]],
    quota: ReplicaQuota,
    links: Links,
    spawn: Spawn,
    clock: Clock,
    log: Log,
) -> ReplicaFetcherManager:
    """Fetchers whose number follows num.replica.fetchers. `broker` is this broker's id, and what tells its epoch."""
    config = dynamic.config
    broker_id, broker_epoch = broker
    protocol = config.inter_broker_protocol_version
    around = Surroundings(
        broker_id,
        broker_epoch,
        versions_for(protocol.release, protocol.step),
        fetch_settings(config),
        quota,
        clock,
        log,
    )
    fetchers = ReplicaFetcherManager(around, links, spawn, per_leader=config.num_replica_fetchers)
    dynamic.on_change(lambda now: fetchers.resize(now.num_replica_fetchers))
    return fetchers
