"""How TLS gets into a broker: its listeners, its handshakes, and the connections to other brokers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.protection.unserved_protection import TLS
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.ports import Network
from sordini.broker.network.tls_handshakes import Handshakes
from sordini.broker.network.tls_network import TlsNetwork
from sordini.broker.wiring.startup import ServerPorts, StartRefused
from sordini.replication.ports import Logger
from sordini.storage.disk import Disk
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.broker.security.tls.listener_tls import TlsListeners

OUTGOING_MAX = 1000


class TlsParts(NamedTuple):
    """TLS of one broker."""

    listeners: TlsListeners
    handshakes: Handshakes
    """Of connections that are accepted."""
    outgoing: Handshakes
    """Of connections to other brokers: no flood of clients delays them."""

    def close(self) -> None:
        self.handshakes.close()
        self.outgoing.close()


def wire_tls(dynamic: DynamicConfig, ports: ServerPorts, log: Logger) -> TlsParts | None:
    """Read the stores of all TLS listeners; None when there is no such listener. Raises StartRefused."""
    config = dynamic.config
    if not any(endpoint.protocol in TLS for endpoint in config.endpoints):
        return None
    from sordini.broker.security.tls.listener_tls import TlsListeners  # Late: for TLS listeners only.

    try:
        listeners = TlsListeners(config, ports.disk.read, _stamp_of(ports.disk), ports.clock, log)
    except ConfigError as error:
        raise StartRefused(str(error)) from error
    dynamic.on_check(listeners.check)
    dynamic.on_layer(listeners.refresh)
    timeout_ms = config.tls_handshake_timeout_ms
    return TlsParts(
        listeners,
        Handshakes(ports.handshake_worker(config.tls_handshake_threads), timeout_ms, config.tls_handshakes_max),
        Handshakes(ports.handshake_worker(1), timeout_ms, OUTGOING_MAX),
    )


def broker_network(config: Config, network: Network, tls: TlsParts | None) -> Network:
    """The network for connections to other brokers: with TLS if their listener has it."""
    own = None if tls is None else tls.listeners.by_name.get(config.inter_broker_listener)
    return network if tls is None or own is None else TlsNetwork(network, own, tls.outgoing)


def _stamp_of(disk: Disk) -> Callable[[str], Hashable]:
    def stamp(path: str) -> Hashable:
        try:
            return disk.modified_ms(path), disk.file_size(path)
        except OSError:
            return None

    return stamp
