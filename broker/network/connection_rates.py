"""How fast connections are accepted: those of the broker, of one listener, and of one address (KIP-612). Pure.

At the broker's rate nothing is accepted, and at a listener's nothing on this listener: peers wait in the backlog. The
broker's rate neither counts nor holds up the listener between brokers, when there are others. A connection of an
address that is above its quota is accepted and closed, after a pause, so that a peer which connects again at once does
not cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from sordini.broker.network.limits import UNBOUNDED
from sordini.broker.network.listener import Listener

ADDRESSES_MAX: Final = 10_000
"""Addresses with a quota that are measured; beyond this number the oldest begins anew."""
CLOSING_MAX: Final = 100
"""Connections that wait to be closed; beyond this number they are closed at once."""
PAUSE_MS_MAX: Final = 1_000
"""A longer pause is divided: quotas may change meanwhile."""


class Rate(Protocol):
    """Units per second over the last windows: `sordini.broker.requests.quotas.rates.WindowedRate`."""

    def record(self, units: float, now_ms: int) -> None: ...

    def throttle_ms(self, bound: float, now_ms: int) -> int: ...


class ConnectionRates:
    """The rates of one broker's connections."""

    def __init__(
        self, new_rate: Callable[[], Rate], monotonic_ms: Callable[[], int], per_second_max: int = UNBOUNDED
    ) -> None:
        self._new_rate = new_rate
        self._monotonic_ms = monotonic_ms
        self.per_second_max = per_second_max
        """max.connection.creation.rate"""
        self.per_second_by_listener: Mapping[str, int] = {}
        """listener.name.X.max.connection.creation.rate, by listener; no entry is no limit"""
        self.quota_of: Callable[[str], float | None] = lambda _: None
        """The quota of an address, in connections per second."""
        self._all = new_rate()
        self._by_listener: dict[str, Rate] = {}
        self._by_address: dict[str, Rate] = {}
        self.closing = 0
        """Connections that wait to be closed."""
        self.throttled = 0
        """Connections closed because their address connected too fast."""

    def wait_ms(self, listener: Listener) -> int:
        """How long nothing may be accepted on a listener."""
        now_ms = self._monotonic_ms()
        waits_ms = (rate.throttle_ms(bound, now_ms) for rate, bound in self._bounded(listener))
        return min(max(waits_ms, default=0), PAUSE_MS_MAX)

    def accepted(self, listener: Listener, address: str) -> int:
        """A connection was accepted; how long it waits before it is closed, or 0 when it may stay."""
        now_ms = self._monotonic_ms()
        for measured, _ in self._bounded(listener):
            measured.record(1, now_ms)
        quota = self.quota_of(address)
        if quota is None:
            return 0
        rate = self._by_address.get(address)
        if rate is None:
            if len(self._by_address) >= ADDRESSES_MAX:
                del self._by_address[next(iter(self._by_address))]
            rate = self._by_address[address] = self._new_rate()
        rate.record(1, now_ms)
        wait_ms = rate.throttle_ms(quota, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)  # It does not stay: the peer's next one is not its fault.
            self.throttled += 1
        return min(wait_ms, PAUSE_MS_MAX)

    def _bounded(self, listener: Listener) -> Iterator[tuple[Rate, int]]:
        """The rates that limit a listener, and their bounds."""
        if not listener.is_protected and self.per_second_max < UNBOUNDED:
            yield self._all, self.per_second_max
        bound = self.per_second_by_listener.get(listener.name, UNBOUNDED)
        if bound < UNBOUNDED:
            if listener.name not in self._by_listener:
                self._by_listener[listener.name] = self._new_rate()
            yield self._by_listener[listener.name], bound
