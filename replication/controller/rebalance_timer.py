"""The timer of the automatic leader rebalance: seconds after the controller's election, then at an interval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.replication.controller.policy import FIRST_REBALANCE_S, LeaderRebalance


class LeaderRebalanceTimer:
    """Calls `due` between `start` and `stop`; never without a `LeaderRebalance`."""

    def __init__(self, rebalance: LeaderRebalance | None, due: Callable[[], None]) -> None:
        self._rebalance = rebalance
        self._due = due
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start over: a controller term begins."""
        self.stop()
        if self._rebalance is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FIRST_REBALANCE_S, self._tick, self._rebalance.interval_s)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, interval_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._tick, interval_s)
        self._due()
