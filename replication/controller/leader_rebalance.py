"""When the reigning controller sees whether leaderships are to be evened out: some seconds after its election, and
from then on at an interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.replication.controller.policy import FIRST_BALANCE_S, LeaderRebalance


class LeaderRebalanceTimer:
    """Calls `due` in time, between `begin` and `end`; never without a `LeaderRebalance`."""

    def __init__(self, balance: LeaderRebalance | None, due: Callable[[], None]) -> None:
        self._balance = balance
        self._due = due
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A reign begins, or another one of the same controller."""
        self.end()
        if self._balance is not None:
            self._timer = asyncio.get_running_loop().call_later(FIRST_BALANCE_S, self._tick, self._balance.interval_s)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, interval_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._tick, interval_s)
        self._due()
