"""The parts of a broker between its ports and its network, put together in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from sordini.broker.clock import Clock
from sordini.broker.commands import CommandReceiver
from sordini.broker.config import Config
from sordini.broker.dispatch import Dispatcher, Route
from sordini.broker.fetch_sessions import FetchSessions
from sordini.broker.handlers.api_versions import ApiVersionsHandler
from sordini.broker.handlers.cluster import ClusterHandler
from sordini.broker.handlers.configs import ConfigsHandler
from sordini.broker.handlers.fetch import FetchHandler
from sordini.broker.handlers.metadata import MetadataHandler
from sordini.broker.handlers.offsets import OffsetsHandler
from sordini.broker.handlers.produce import ProduceHandler
from sordini.broker.handlers.producer_ids import ProducerIdHandler
from sordini.broker.handlers.sasl import SaslHandler
from sordini.broker.handlers.topics import TopicsHandler
from sordini.broker.identity import BrokerIdentity
from sordini.broker.metadata_cache import MetadataCache
from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.ports import Log
from sordini.broker.settings import INT32_MAX
from sordini.broker.topic_admin import TopicAdmin
from sordini.broker.topic_configs import TopicConfigs
from sordini.replication.controller.cluster import Malformed
from sordini.replication.controller.configs import read_config
from sordini.replication.controller.producer_ids import ProducerIdBlocks
from sordini.replication.controller.topics import topic_ids
from sordini.replication.ports import Session
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.home import Randomness
from sordini.storage.log_manager import LogManager

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Surroundings(NamedTuple):
    """What the parts are put together from."""

    config: Config
    explicit: frozenset[str]
    identity: BrokerIdentity
    session: Session
    clock: Clock
    randomness: Randomness
    spawn: Spawn
    log: Log


class Assembly(NamedTuple):
    """The parts that the server starts, feeds and stops."""

    metadata: MetadataCache
    topic_configs: TopicConfigs
    replicas: ReplicaSet
    receiver: CommandReceiver
    sessions: FetchSessions
    dispatcher: Dispatcher


def topic_configs_of(config: Config, explicit: frozenset[str], session: Session) -> TopicConfigs:
    """The topics' configurations, read through a session. Unreadable ones count as empty."""

    async def read_overrides(topic: str) -> Mapping[str, str]:
        found = await read_config(session, f"topics/{topic}")
        return {} if isinstance(found, Malformed) else found

    return TopicConfigs(config, explicit, read_overrides)


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
    dispatcher.add(_routes(around, topic_configs, metadata, replicas, sessions, dispatcher))
    receiver = CommandReceiver(broker_id, replicas, metadata, topic_configs, around.log)
    return Assembly(metadata, topic_configs, replicas, receiver, sessions, dispatcher)


def _routes(
    around: Surroundings,
    topic_configs: TopicConfigs,
    metadata: MetadataCache,
    replicas: ReplicaSet,
    sessions: FetchSessions,
    dispatcher: Dispatcher,
) -> list[Route]:
    config, clock, later = around.config, around.clock, dispatcher.later
    broker_id = around.identity.broker_id
    new_topic_id = topic_ids(around.randomness.getrandbits)
    admin = TopicAdmin(broker_id, around.session, metadata, topic_configs, config, new_topic_id, around.spawn)
    producer_ids = ProducerIdBlocks(around.session, broker_id)
    call_later = asyncio.get_running_loop().call_later
    return [
        ProduceHandler(replicas, clock, later).route(),
        FetchHandler(replicas, sessions, clock, call_later, bytes_max=config.fetch_max_bytes).route(),
        *OffsetsHandler(replicas).routes(),
        MetadataHandler(metadata, admin.auto_create).route(),
        ApiVersionsHandler().route(),
        *TopicsHandler(admin, metadata, later).routes(),
        ProducerIdHandler(producer_ids, later).route(),
        ConfigsHandler(broker_id, config, around.explicit, metadata, topic_configs.config_of).route(),
        *ClusterHandler(metadata).routes(),
        *SaslHandler().routes(),
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
