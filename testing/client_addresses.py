"""Where the clients of a test reach its brokers and its registry, and with what settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordini.testing.cluster import Cluster
from sordini.testing.security import Security

if TYPE_CHECKING:
    from sordini.testing.registry import KitRegistry  # It imports a web server.


class ClientAddresses:
    """The part of `Kafka` that clients are made with."""

    def __init__(self, cluster: Cluster, security: Security, registry: KitRegistry | None) -> None:
        self._cluster = cluster
        self._security = security
        self._registry = registry

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of all brokers, separated by commas: what every client takes."""
        return self.bootstrap_of(next(iter(self._security.listeners)))

    def bootstrap_of(self, listener: str) -> str:
        """`bootstrap_servers` of one of several listeners. Raises ValueError."""
        if listener not in self._security.listeners:
            raise ValueError(f"listener {listener!r}: allowed are {', '.join(self._security.listeners)}")
        return ",".join("{}:{}".format(*state.listeners[listener]) for state in self._cluster.states())

    def client_settings(
        self, user: str | None = None, *, listener: str | None = None, mechanism: str | None = None
    ) -> dict[str, Any]:
        """`bootstrap.servers` and what TLS and the login need, as librdkafka's clients take it. Raises ValueError."""
        listener = listener or next(iter(self._security.listeners))
        secured = self._security.client_settings(listener, user, mechanism)
        return {"bootstrap.servers": self.bootstrap_of(listener), **secured}

    @property
    def registry(self) -> KitRegistry:
        """The schema registry beside the brokers; its `url` is what clients take. Raises ValueError."""
        if self._registry is None:
            raise ValueError("there is no schema registry: make_kafka(registry=True)")
        return self._registry

    @property
    def ca_file(self) -> str:
        """The path of the certificate (PEM) of the authority that issued the brokers'. Raises ValueError."""
        return self._security.ca_file
