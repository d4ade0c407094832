"""How long the answer to a failed login is held back: longer for an address that fails again and again. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

ADDRESSES_MAX: Final = 10_000
"""Addresses that are remembered; the one whose last failure is oldest is forgotten first."""
FORGOTTEN_MS: Final = 60_000
"""After so long without a failure an address begins anew."""
DELAY_MS_MAX: Final = 10_000
_DOUBLINGS_MAX: Final = 10


class FailedLogins:
    """Counts failures by address."""

    def __init__(self, delay_ms: int) -> None:
        """`delay_ms` is connection.failed.authentication.delay.ms, the delay after the first failure."""
        self._delay_ms = delay_ms
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Count, and time of the last one; the oldest first."""
        self.total = 0

    def failed(self, address: str, now_ms: int) -> int:
        """A login has failed; how long its answer waits, in ms."""
        self.total += 1
        count, last_ms = self._failures.pop(address, (0, now_ms))
        count = 1 if now_ms - last_ms >= FORGOTTEN_MS else count + 1
        if len(self._failures) >= ADDRESSES_MAX:
            self._failures.popitem(last=False)
        self._failures[address] = count, now_ms
        delay_ms = self._delay_ms << min(count - 1, _DOUBLINGS_MAX)
        return max(self._delay_ms, min(delay_ms, DELAY_MS_MAX))

    def succeeded(self, address: str) -> None:
        """A client has logged in from this address."""
        self._failures.pop(address, None)
