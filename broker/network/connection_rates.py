"""How fast connections are accepted: those of the broker, and those of one address (KIP-612). Pure.

At the broker's rate nothing is accepted: peers wait in the backlog. A connection of an address that is above its quota
is accepted and closed, after a pause, so that a peer which connects again at once does not cost more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from sordini.broker.network.limits import UNBOUNDED

ADDRESSES_MAX: Final = 10_000
"""Addresses with a quota that are measured; beyond this number the oldest begins anew."""
CLOSING_MAX: Final = 100
"""Connections that wait to be closed; beyond this number they are closed at once."""
PAUSE_MS_MAX: Final = 1_000
"""A longer pause is divided: quotas may change meanwhile."""


class Rate(Protocol):
    """Units per second over the last windows: `sordini.broker.quotas.rates.WindowedRate`."""

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
        self.quota_of: Callable[[str], float | None] = lambda _: None
        """The quota of an address, in connections per second."""
        self._all = new_rate()
        self._by_address: dict[str, Rate] = {}
        self.closing = 0
        """Connections that wait to be closed."""
        self.throttled = 0
        """Connections closed because their address connected too fast."""

    def wait_ms(self) -> int:
        """How long nothing may be accepted."""
        if self.per_second_max >= UNBOUNDED:
            return 0
        return min(self._all.throttle_ms(self.per_second_max, self._monotonic_ms()), PAUSE_MS_MAX)

    def accepted(self, address: str) -> int:
        """A connection was accepted; how long it waits before it is closed, or 0 when it may stay."""
        now_ms = self._monotonic_ms()
        if self.per_second_max < UNBOUNDED:
            self._all.record(1, now_ms)
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
