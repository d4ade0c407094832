"""Quotas of clients: what is measured, and where in the way of a request."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.network.connection_rates import ConnectionRates
from sordini.broker.network.ports import Service
from sordini.broker.network.server import SocketServer
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.requests.quotas.rates import RateWindows, WindowedRate
from sordini.broker.requests.quotas.throttled_service import ThrottledService
from sordini.replication.ports import Clock, Logger
from sordini.system.clock import monotonic_ns


def client_quotas(config: Config, log: Logger) -> ClientQuotas:
    """The quotas of one broker; none are read yet."""
    mutations = RateWindows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
    return ClientQuotas(client_windows(config), mutations, log)


def client_windows(config: Config) -> RateWindows:
    """How long rates of clients are measured."""
    return RateWindows(config.quota_window_num, config.quota_window_size_seconds * 1000)


def throttle(
    sockets: SocketServer,
    quotas: ClientQuotas,
    service: Service,
    serve_by: Callable[[Service], None],
    dynamic: DynamicConfig,
    clock: Clock,
) -> None:
    """Put the measuring service in front of `service` while there are quotas, and limit the rate of connections.

    `serve_by` is called with the one that serves from then on.
    """
    throttled = ThrottledService(service, quotas, clock, monotonic_ns)
    windows = client_windows(dynamic.config)
    rates = ConnectionRates(lambda: WindowedRate(windows), clock.monotonic_ms)
    rates.quota_of = quotas.connection_rate
    sockets.quotas.rates = rates

    def choose() -> None:
        serve_by(throttled if quotas.limits_clients else service)

    def limit(now: Config) -> None:
        rates.per_second_max = now.max_connection_creation_rate
        rates.per_second_by_listener = {name: own.max_connection_creation_rate for name, own in now.connections.items()}

    quotas.listeners.append(choose)
    dynamic.on_change(limit)
    limit(dynamic.config)
    choose()
