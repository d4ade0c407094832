"""Limits of one connection, one processor and the whole broker, and the connection quotas. Pure.

Where Apache Kafka has a key, the default is its default; -1 switches a limit off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sordini.broker.network.ports import Peer, SocketOptions

if TYPE_CHECKING:
    from sordini.broker.network.connection_rates import ConnectionRates
    from sordini.broker.network.tls_handshakes import ServerTls

UNBOUNDED = 2**31 - 1


class ConnectionLimits(NamedTuple):
    """Limits of one connection."""

    frame_bytes_max: int = 104_857_600
    """socket.request.max.bytes"""
    idle_ms_max: int = 600_000
    """connections.max.idle.ms"""
    parked_max: int = 64
    parked_bytes_max: int = 16 * 1024 * 1024
    """At either, no further Produce starts behind pending ones."""
    slice_requests_max: int = 16
    slice_bytes_max: int = 1024 * 1024
    """At either, the slice of a connection ends."""
    queued_bytes_max: int = 1024 * 1024
    """Responses that the peer has not read: at this limit, its requests are neither read nor started."""
    stall_ms_max: int = 30_000
    """The connection is closed when no byte of a response could be sent for this long."""
    first_request_ms_max: int = -1
    """From accept to the end of the first request."""
    frame_bytes_per_s_min: int = -1
    """The least rate at which the rest of a frame must arrive."""


class NetworkLimits(NamedTuple):
    """Limits of the whole broker."""

    processors: int = 3
    """num.network.threads"""
    processor_connections_max: int = UNBOUNDED
    """sordini.processor.connections.max"""
    connections_max: int = UNBOUNDED
    """max.connections"""
    descriptors_max: int = UNBOUNDED
    """Descriptors reserved for connections, those of brokers included."""
    connections_by_listener: Mapping[str, int] = {}
    """listener.name.X.max.connections, by listener; no entry is no limit"""
    connections_per_address_max: int = UNBOUNDED
    """max.connections.per.ip"""
    connections_per_address_overrides: Mapping[str, int] = {}
    """max.connections.per.ip.overrides, by address"""
    request_memory_bytes_max: int = -1
    """queued.max.request.bytes"""
    tick_ms: int = 500
    """Interval at which idle, slow and stalled connections are closed."""


class Listener(NamedTuple):
    """One entry of `listeners`. An empty host means every address."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"
    options: SocketOptions = SocketOptions()
    is_protected: bool = False
    """The inter-broker listener, when there are others: the broker's bounds do not apply to it, only its own."""
    tls: ServerTls | None = None
    """Of an SSL listener."""
    begin_login: Callable[[Peer], bool] | None = None
    """Of a SASL listener: prepares a new connection for its login; False when it has to be closed."""
    on_tls_refused: Callable[[Peer, str], None] | None = None
    """Of an SSL listener: a handshake was refused, and why."""


class ConnectionQuotas:
    """Counts open connections, in all, per listener and per address, against the limits."""

    def __init__(self, limits: NetworkLimits) -> None:
        self.limits = limits
        self.rates: ConnectionRates | None = None
        """How fast connections are accepted; None: as fast as they come."""
        self._per_listener: Counter[str] = Counter()
        self._per_address: Counter[str] = Counter()
        self.total = 0
        self.accepted = 0
        """Connections accepted since the start, closed ones included."""

    def may_accept(self, listener: Listener) -> bool:
        """Whether a listener may take another connection now; if not, its peers wait in the backlog."""
        bound = self.limits.connections_by_listener.get(listener.name, UNBOUNDED)
        if self._per_listener[listener.name] >= bound or self.are_descriptors_used():
            return False
        return listener.is_protected or self.total < self.limits.connections_max

    def are_descriptors_used(self) -> bool:
        """Whether connections use all descriptors reserved for them."""
        return self.total >= self.limits.descriptors_max

    def may_keep(self, address: str) -> bool:
        """Whether one more connection of this address may stay; if not, it is closed at once."""
        limits = self.limits
        bound = limits.connections_per_address_overrides.get(address, limits.connections_per_address_max)
        return self._per_address[address] < bound

    def of_listener(self, name: str) -> int:
        """How many connections a listener has."""
        return self._per_listener[name]

    def opened(self, listener: str, address: str) -> None:
        self.total += 1
        self.accepted += 1
        self._per_listener[listener] += 1
        self._per_address[address] += 1

    def closed(self, listener: str, address: str) -> None:
        self.total -= 1
        self._per_listener[listener] -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]  # Peers choose their addresses: only those with connections are kept.
