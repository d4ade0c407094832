"""How this broker deals with the others of its cluster, put together in one place.

Links to them, the fetchers of what it follows, who grants changes of in-sync sets, where producer ids come from: all
follow from the protocol that the brokers have agreed on (`inter.broker.protocol.version`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sordini.broker.clock import Clock
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.replica_quotas import ReplicaQuotas, replica_quotas
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.control.control_wire import ControlWire
from sordini.broker.coordinators.producer_id_manager import ProducerIdManager, StoreBlockSource
from sordini.broker.dispatch import Dispatcher, Spawn
from sordini.broker.network.ports import Log, Network, Peer, SocketOptions
from sordini.broker.peers.allocate_producer_ids import ControllerBlockSource
from sordini.broker.peers.alter_partition import AlterPartitions
from sordini.broker.peers.broker_client import BrokerClientLimits, BrokerClients
from sordini.broker.peers.command_channel import Dial
from sordini.broker.peers.controller_client import ControllerClient, ServeLocally
from sordini.broker.peers.isr_in_store import IsrInStore
from sordini.broker.peers.local_requests import LocalRequests
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.wiring.replica_fetchers import fetchers_of
from sordini.protocol.types import BrokerId
from sordini.replication.fetching.fetcher_manager import ReplicaFetcherManager
from sordini.replication.inter_broker import InterBrokerVersions, versions_for
from sordini.replication.partition_deps import Peers
from sordini.replication.ports import IsrChanges, Session


class Myself(NamedTuple):
    """What others may ask about this broker."""

    broker_id: BrokerId
    epoch: Callable[[], int]
    """Of the present registration."""
    session: Session


class World(NamedTuple):
    """What the parts here run on."""

    network: Network
    clock: Clock
    spawn: Spawn
    log: Log


class Peering(NamedTuple):
    """The parts."""

    listener: str
    """The name of the one that brokers use among themselves."""
    itself: Peer
    """What this broker's own requests to itself come from."""
    versions: InterBrokerVersions
    wire: ControlWire
    dial: Dial
    serve_locally: ServeLocally
    """Serves what this broker asks of the controller when that is itself."""
    quotas: ReplicaQuotas
    fetchers: ReplicaFetcherManager
    peers: Peers
    producer_ids: ProducerIdManager
    controllers: tuple[ControllerClient, ...]
    """Ways to the controller, each its user's own."""

    def close(self) -> None:
        """Hang up on the controller; fetchers and the channel end with their tasks."""
        for controller in self.controllers:
            controller.close()


def peering_of(
    me: Myself,
    dynamic: DynamicConfig,
    topics: TopicConfigs,
    metadata: MetadataCache,
    dispatcher: Dispatcher,
    world: World,
) -> Peering:
    """Put the parts together; nothing runs yet."""
    config = dynamic.config
    protocol, listener = config.inter_broker_protocol_version, config.inter_broker_listener_name
    versions = versions_for(protocol.release, protocol.step)

    limits = BrokerClientLimits(options=SocketOptions(receive_buffer_bytes=config.replica_socket_receive_buffer_bytes))

    def address_of(broker_id: BrokerId) -> tuple[str, int] | None:
        known = metadata.brokers.get(broker_id)
        return None if known is None else known.endpoints.get(listener)

    def dial(addresses: Callable[[BrokerId], tuple[str, int] | None]) -> BrokerClients:
        return BrokerClients(world.network, addresses, limits)

    links = dial(address_of)
    itself = Peer(listener, config.protocols.get(listener, listener), "", 0, "this broker")
    serve_locally = LocalRequests(dispatcher, itself, str(me.broker_id)).ask
    quotas = replica_quotas(me.broker_id, dynamic, topics)
    controllers: list[ControllerClient] = []

    def controller() -> ControllerClient:
        controllers.append(
            ControllerClient(
                me.broker_id, metadata, links, serve_locally, timeout_ms=config.controller_socket_timeout_ms
            )
        )
        return controllers[-1]

    changes: IsrChanges
    if versions.alters_isr_in_store:
        changes = IsrInStore(me.broker_id, me.session, world.clock, world.spawn, world.log)
    else:
        changes = AlterPartitions(me.broker_id, me.epoch, controller(), versions, world.spawn, world.log)
    if versions.allocates_producer_ids:
        take_block = ControllerBlockSource(me.broker_id, me.epoch, controller()).take
    else:
        take_block = StoreBlockSource(me.session, me.broker_id).take
    return Peering(
        listener=listener,
        itself=itself,
        versions=versions,
        wire=ControlWire(versions, listener),
        dial=dial,
        serve_locally=serve_locally,
        quotas=quotas,
        fetchers=fetchers_of(
            dynamic, (me.broker_id, me.epoch), quotas.follower, links, world.spawn, world.clock, world.log
        ),
        peers=Peers(changes, lambda broker_id: broker_id in metadata.brokers, config.replica_lag_time_max_ms),
        producer_ids=ProducerIdManager(take_block, world.spawn, world.log),
        controllers=tuple(controllers),
    )
