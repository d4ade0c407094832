"""One timer for all groups: who is due when, and how late we are.

A group is entered with a time that may turn out too early (its members sent heartbeats meanwhile): that is found out
when the time has come, so that a heartbeat does not move anything here.

A process that was held up for a while wakes to timers that are overdue and to sockets full of heartbeats, and which
come first is up to the loop. So whoever is late first lets the loop read its sockets once, and then says how late it
was.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from sordini.broker.clock import Clock
from sordini.broker.coordinators.ports import CallLater, Timer

K = TypeVar("K", bound=Hashable)

LATE_MS = 50
"""Above what a busy loop is late by."""
DRAIN_S = 0.005
"""Long enough for a round of the loop that looks at all sockets, whichever of timers and sockets it does first."""


class DueTimer(Generic[K]):
    """Calls `due(key, late_ms)` for keys whose time has come."""

    def __init__(self, clock: Clock, call_later: CallLater, due: Callable[[K, int], None]) -> None:
        self._clock = clock
        self._call_later = call_later
        self._due = due
        self._times: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._entered = 0
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_draining = False

    def enter(self, key: K, due_ms: int) -> None:
        """Call for this key at `due_ms` (monotonic) at the latest; an earlier time already entered stands."""
        known = self._times.get(key)
        if known is not None and known <= due_ms:
            return
        self._times[key] = due_ms
        self._entered += 1
        heapq.heappush(self._heap, (due_ms, self._entered, key))
        self._arm()

    def forget(self, key: K) -> None:
        """Do not call for this key any more."""
        self._times.pop(key, None)

    def close(self) -> None:
        """Call for nobody any more."""
        self._times.clear()
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        heap, times = self._heap, self._times
        while heap and times.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)  # Forgotten, or entered anew for an earlier time.
        if self._timer is not None:
            if heap and self._timer_ms <= heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
        self._is_draining = False
        if heap:
            self._timer_ms = heap[0][0]
            left_ms = max(self._timer_ms - self._clock.monotonic_ms(), 0)
            self._timer = self._call_later(left_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        heap, times = self._heap, self._times
        if heap and not self._is_draining and now_ms - heap[0][0] >= LATE_MS:
            self._is_draining = True
            self._timer = self._call_later(DRAIN_S, self._fire)
            return
        self._is_draining = False
        ready = []
        while heap and heap[0][0] <= now_ms:
            due_ms, _, key = heapq.heappop(heap)
            if times.get(key) == due_ms:
                del times[key]
                ready.append((key, now_ms - due_ms))
        for key, late_ms in ready:
            self._due(key, late_ms)
        self._arm()
