"""How many connections may be open: in all, per listener and per address. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sordini.broker.network.limits import UNBOUNDED, NetworkLimits
from sordini.broker.network.listener import Listener

if TYPE_CHECKING:
    from sordini.broker.network.connection_rates import ConnectionRates


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
