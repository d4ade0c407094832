"""How this broker talks to the others of its cluster: transport, replica fetchers, ISR changes and producer ids.

All of it follows from the protocol that the brokers have agreed on (`inter.broker.protocol.version`).
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.cluster.commands.control_wire import ControlWire
from sordini.broker.cluster.identity import LocalBroker
from sordini.broker.cluster.peers.allocate_producer_ids import ControllerProducerIdBlocks
from sordini.broker.cluster.peers.alter_partition import AlterPartitions
from sordini.broker.cluster.peers.broker_client import BrokerClientLimits, BrokerClients, OwnLogin
from sordini.broker.cluster.peers.command_channel import Dial
from sordini.broker.cluster.peers.controller_client import ControllerClient, ServeLocally
from sordini.broker.cluster.peers.isr_in_store import IsrInStore
from sordini.broker.cluster.peers.local_requests import LocalRequests
from sordini.broker.cluster.peers.producer_ids_in_store import StoreProducerIdBlocks
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.protection.sasl_config import own_login
from sordini.broker.configuration.replica_quotas import ReplicaQuotas, replica_quotas
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.broker.network.ports import Network, Peer, SocketOptions
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.wiring.deps import Runtime
from sordini.broker.wiring.replica_fetchers import wire_fetchers
from sordini.client.authentication import SaslCredentials
from sordini.protocol.types import BrokerId
from sordini.replication.fetching.fetcher_manager import ReplicaFetcherManager
from sordini.replication.inter_broker_versions import InterBrokerVersions, versions_for
from sordini.replication.partition_deps import IsrChangeCounts, Peers
from sordini.replication.ports import BrokerLinks, IsrChanges
from sordini.replication.state_change_log import IsrChangeLog
from sordini.system.named_tuple import NamedTuple

WITH_TRANSACTION_VERSION = 2
"""The version of WriteTxnMarkers in an exclusive cluster, where every broker knows it."""


class InterBrokerTransport(NamedTuple):
    """How requests between brokers travel."""

    listener: str
    """`inter.broker.listener.name`."""
    local_peer: Peer
    """The origin of this broker's requests to itself."""
    versions: InterBrokerVersions
    wire: ControlWire
    dial: Dial
    serve_locally: ServeLocally
    """Serves requests to the controller when this broker is the controller."""


class InterBroker(NamedTuple):
    """The transport, and what uses it."""

    transport: InterBrokerTransport
    links: BrokerLinks
    """Makes connections to brokers by the address that the metadata has."""
    quotas: ReplicaQuotas
    fetchers: ReplicaFetcherManager
    peers: Peers
    producer_ids: ProducerIdManager
    controller_links: tuple[ControllerClient, ...]
    """One connection to the controller for each kind of request."""

    def close(self) -> None:
        """Write log lines that are due later, and close connections to the controller.

        Fetchers and the command channel end with their tasks.
        """
        if self.peers.log is not None:
            self.peers.log.write()
        for link in self.controller_links:
            link.close()


def wire_inter_broker(
    local: LocalBroker,
    dynamic: DynamicConfig,
    topics: TopicConfigs,
    metadata: MetadataCache,
    dispatcher: Dispatcher,
    network: Network,
    runtime: Runtime,
) -> InterBroker:
    """Build it; nothing runs yet."""
    config = dynamic.config
    protocol, listener = config.inter_broker_protocol_version, config.inter_broker_listener
    versions = versions_for(protocol.release, protocol.step)
    if config.cluster_exclusive:
        versions = versions._replace(write_txn_markers=WITH_TRANSACTION_VERSION)
    limits = BrokerClientLimits(options=SocketOptions(receive_buffer_bytes=config.replica_socket_receive_buffer_bytes))

    own = own_login(config)
    login = None if own is None else OwnLogin(SaslCredentials(*own), runtime.clock)

    def address_of(broker_id: BrokerId) -> tuple[str, int] | None:
        known = metadata.brokers.get(broker_id)
        return None if known is None else known.endpoints.get(listener)

    def dial(addresses: Callable[[BrokerId], tuple[str, int] | None]) -> BrokerClients:
        return BrokerClients(network, addresses, limits, login)

    links = dial(address_of)
    local_peer = Peer(listener, config.protocols.get(listener, listener), "", 0, "this broker")
    serve_locally = LocalRequests(dispatcher, local_peer, str(local.broker_id)).ask
    quotas = replica_quotas(local.broker_id, dynamic, topics)
    controller_links: list[ControllerClient] = []

    def controller_link() -> ControllerClient:
        timeout_ms = config.controller_socket_timeout_ms
        link = ControllerClient(local.broker_id, metadata, links, serve_locally, timeout_ms=timeout_ms)
        controller_links.append(link)
        return link

    changes: IsrChanges
    if versions.alters_isr_in_store:
        changes = IsrInStore(local.broker_id, local.session, runtime.clock, runtime.spawn, runtime.log)
    else:
        changes = AlterPartitions(local.broker_id, local.epoch, controller_link(), versions, runtime.spawn, runtime.log)
    if versions.allocates_producer_ids:
        take_block = ControllerProducerIdBlocks(local.broker_id, local.epoch, controller_link()).take
    else:
        take_block = StoreProducerIdBlocks(local.session, local.broker_id).take
    return InterBroker(
        transport=InterBrokerTransport(
            listener, local_peer, versions, ControlWire(versions, listener), dial, serve_locally
        ),
        links=links,
        quotas=quotas,
        fetchers=wire_fetchers(dynamic, local, quotas.follower, links, runtime),
        peers=Peers(
            changes,
            lambda broker_id: broker_id in metadata.brokers,
            config.replica_lag_time_max_ms,
            log=IsrChangeLog(runtime.log, runtime.clock, runtime.call_later),
            counts=IsrChangeCounts(),
        ),
        producer_ids=ProducerIdManager(take_block, runtime.spawn, runtime.log),
        controller_links=tuple(controller_links),
    )
