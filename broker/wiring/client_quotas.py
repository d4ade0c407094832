"""Quotas of clients: what is measured, and where in the way of a request."""

from __future__ import annotations

from sordini.broker.clock import monotonic_ns
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.network.connection_rates import ConnectionRates
from sordini.broker.network.ports import Service
from sordini.broker.network.server import SocketServer
from sordini.broker.quotas.client_quotas import ClientQuotas
from sordini.broker.quotas.rates import WindowedRate, Windows
from sordini.broker.quotas.throttled_service import ThrottledService
from sordini.replication.ports import Clock, Logger


def client_quotas(config: Config, log: Logger) -> ClientQuotas:
    """The quotas of one broker; none are read yet."""
    mutations = Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
    return ClientQuotas(client_windows(config), mutations, log)


def client_windows(config: Config) -> Windows:
    """How long rates of clients are measured."""
    return Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)


def throttle(
    sockets: SocketServer, quotas: ClientQuotas, service: Service, dynamic: DynamicConfig, clock: Clock
) -> None:
    """Put the measuring service in front of `service` while there are quotas, and limit the rate of connections."""
    throttled = ThrottledService(service, quotas, clock, monotonic_ns)
    windows = client_windows(dynamic.config)
    rates = ConnectionRates(lambda: WindowedRate(windows), clock.monotonic_ms)
    rates.quota_of = quotas.connection_rate
    sockets.quotas.rates = rates

    def choose() -> None:
        sockets.serve_by(throttled if quotas.limits_clients else service)

    def limit(now: Config) -> None:
        rates.per_second_max = now.max_connection_creation_rate
        rates.per_second_by_listener = {name: own.max_connection_creation_rate for name, own in now.connections.items()}

    quotas.listeners.append(choose)
    dynamic.on_change(limit)
    limit(dynamic.config)
    choose()
