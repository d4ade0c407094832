"""How often an address may do something: token buckets, of a bounded number of addresses. Pure.

A bucket holds `burst` permits and is refilled at `per_s`. When there are too many buckets, the one that was used
longest ago is dropped: its address begins with a full bucket again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

ADDRESSES_MAX: Final = 4096


class RateLimit:
    """The buckets of one kind of action."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By address: permits, and when they were counted (s)."""

    def is_allowed(self, address: str, now_s: float) -> bool:
        """Take a permit, if there is one."""
        permits, at_s = self._buckets.pop(address, (self._burst, now_s))
        permits = min(self._burst, permits + max(now_s - at_s, 0.0) * self._per_s)
        allowed = permits >= 1.0
        self._buckets[address] = (permits - 1.0 if allowed else permits, now_s)
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        return allowed

    def give_back(self, address: str) -> None:
        """The permit that was taken last did not count: only failures do."""
        if address in self._buckets:
            permits, at_s = self._buckets[address]
            self._buckets[address] = (min(self._burst, permits + 1.0), at_s)
