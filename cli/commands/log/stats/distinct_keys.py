"""The number of distinct keys: exact up to a limit, then estimated.

The estimate is HyperLogLog (Flajolet and others, 2007) with 2^14 counters: usually within 1 %, at worst 2.5 %. Merging
two counts counts no key twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

EXACT_MAX: Final = 100_000
_COUNTER_BITS: Final = 14
_COUNTERS: Final = 1 << _COUNTER_BITS
_REST_BITS: Final = 64 - _COUNTER_BITS
_BIAS: Final = 0.7213 / (1 + 1.079 / _COUNTERS)


class DistinctKeys:
    """Counts the distinct keys added to it."""

    def __init__(self, exact_max: int = EXACT_MAX) -> None:
        self._exact_max = exact_max
        self._hashes: set[int] = set()
        self._counters: bytearray | None = None

    @property
    def is_estimate(self) -> bool:
        return self._counters is not None

    def add(self, key: bytes) -> None:
        self._add(int.from_bytes(blake2b(key, digest_size=8).digest(), "big"))

    def add_all(self, keys: Iterable[bytes]) -> None:
        """Add many keys; each distinct one is hashed once."""
        for key in set(keys):
            self.add(key)

    def join(self, other: DistinctKeys) -> None:
        """Merge another count into this one; `other` does not change."""
        if other._counters is not None:
            self._estimate_from_now_on()
            assert self._counters is not None
            self._counters = bytearray(map(max, self._counters, other._counters))
        for hashed in other._hashes:
            self._add(hashed)

    def count(self) -> int:
        if self._counters is None:
            return len(self._hashes)
        estimate = _BIAS * _COUNTERS**2 / sum(2.0**-counter for counter in self._counters)
        empty = self._counters.count(0)
        if estimate <= 2.5 * _COUNTERS and empty:
            estimate = _COUNTERS * math.log(_COUNTERS / empty)
        return round(estimate)

    def _add(self, hashed: int) -> None:
        if self._counters is not None:
            rest = hashed & (1 << _REST_BITS) - 1
            zeros = _REST_BITS - rest.bit_length() + 1
            counter = hashed >> _REST_BITS
            self._counters[counter] = max(self._counters[counter], zeros)
            return
        self._hashes.add(hashed)
        if len(self._hashes) > self._exact_max:
            self._estimate_from_now_on()

    def _estimate_from_now_on(self) -> None:
        if self._counters is None:
            self._counters = bytearray(_COUNTERS)
            hashes, self._hashes = self._hashes, set()
            for hashed in hashes:
                self._add(hashed)
