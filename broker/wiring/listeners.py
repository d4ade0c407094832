"""Where a broker listens: its listeners with their limits, and the metrics endpoint."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.listeners import ListenerEndpoint
from sordini.broker.configuration.protection.sasl_config import SASL_PROTOCOLS
from sordini.broker.configuration.settings import INT32_MAX
from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.listener import Listener
from sordini.broker.network.ports import SocketOptions
from sordini.broker.network.server import SocketServer
from sordini.broker.wiring.startup import StartRefused
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.ports import Logger

if TYPE_CHECKING:
    from sordini.broker.metrics.endpoint import MetricsEndpoint
    from sordini.broker.requests.dispatch import Dispatcher
    from sordini.broker.wiring.security import SecurityParts
    from sordini.broker.wiring.tls import TlsParts

NO_SUCH_INTERFACE: Final = (
    ". A listener's host is an address of this machine, or empty for all of them; advertised.listeners has the address "
    "that clients connect to"
)


def network_limits(config: Config, descriptors_max: int) -> tuple[NetworkLimits, ConnectionLimits]:
    """The limits of the network layer; `descriptors_max` file descriptors are available for connections."""
    return (
        NetworkLimits(
            processors=config.num_network_threads,
            processor_connections_max=config.processor_connections_max,
            connections_max=config.max_connections,
            descriptors_max=descriptors_max,
            connections_by_listener={name: own.max_connections for name, own in config.connections.items()},
            connections_per_address_max=config.max_connections_per_ip,
            connections_per_address_overrides=config.max_connections_by_ip,
            request_memory_bytes_max=config.queued_max_request_bytes,
        ),
        ConnectionLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            idle_ms_max=config.connections_max_idle_ms,
            # A consumer that processes records may leave the rest of a response unread for minutes.
            stall_ms_max=config.connections_max_idle_ms if config.connections_max_idle_ms >= 0 else INT32_MAX,
            pending_max=config.connection_pending_produce_requests_max,
            first_request_ms_max=config.first_request_ms,
            frame_bytes_per_s_min=config.request_bytes_per_s_min,
        ),
    )


def bind(
    config: Config, sockets: SocketServer, tls: TlsParts | None, security: SecurityParts
) -> tuple[list[ListenerEndpoint], tuple[ListenerEndpoint, ...]]:
    """Bind every listener. Returns the bound and the advertised endpoints; raises StartRefused.

    A port of 0 is chosen by the system, and returned as chosen.
    """
    options = SocketOptions(
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        backlog=config.socket_listen_backlog_size,
        user_timeout_ms=config.tcp_user_timeout_ms,
    )
    logins, rules = security.logins, config.advertised_rules
    try:
        sockets.bind(
            [
                Listener(
                    end.name,
                    end.host,
                    end.port,
                    end.protocol,
                    options,
                    is_protected=end.name == config.inter_broker_listener and len(config.endpoints) > 1,
                    tls=None if tls is None else tls.listeners.by_name.get(end.name),
                    begin_login=logins.begin if logins is not None and end.protocol in SASL_PROTOCOLS else None,
                    on_tls_refused=security.login_events.handshake_refused,
                    address_rules=tuple(one.rule for one in rules if one.listener == end.name),
                )
                for end in config.endpoints
            ],
            None if tls is None else tls.handshakes,
        )
    except OSError as error:
        remedy = NO_SUCH_INTERFACE if error.errno == errno.EADDRNOTAVAIL else ""
        raise StartRefused(f"listeners: {error.strerror}{remedy}") from error
    bound = [end._replace(port=sockets.address(end.name)[1]) for end in config.endpoints]
    return bound, config.advertised(tuple(bound))


def registered_broker(config: Config, broker_id: BrokerId, advertised: Iterable[ListenerEndpoint]) -> Broker:
    """What a broker registers of itself."""
    rules = _registered(one.endpoint for one in config.advertised_rules)
    return Broker(broker_id, 0, _registered(advertised), config.broker_rack, config.cluster_exclusive, rules)


def _registered(ends: Iterable[ListenerEndpoint]) -> tuple[BrokerEndpoint, ...]:
    return tuple(BrokerEndpoint(end.name, end.host, end.port, end.protocol) for end in dict.fromkeys(ends))


async def listen_for_metrics(config: Config, dispatcher: Dispatcher, log: Logger) -> MetricsEndpoint | None:
    """The metrics endpoint, which also times requests; None where `sordini.metrics.port` is -1. Raises StartRefused."""
    if config.metrics_port < 0:
        return None
    from sordini.broker.metrics.endpoint import MetricsEndpoint  # Late: its library takes 100 ms to import.

    metrics = MetricsEndpoint(dispatcher, log, has_kafka_names=config.metrics_kafka_names)
    try:
        host, port = await metrics.listen(config.metrics_host, config.metrics_port)
    except OSError as error:
        raise StartRefused(f"sordini.metrics.port: {error.strerror}") from error
    log.info("metrics endpoint listening", host=host, port=port)
    return metrics
