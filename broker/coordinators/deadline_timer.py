"""One timer for all keys of a coordinator: which key is due when, and how late the broker is.

A key is scheduled at a time that may turn out too early (a member has sent a heartbeat since): that is found out at
that time, so a heartbeat changes nothing here.

After a stall of the process, timers are overdue and sockets are full of heartbeats, and the loop may run either first.
So an overdue timer first lets the loop read its sockets once, and then reports how late it is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from sordini.replication.ports import CallLater, Clock, Timer

K = TypeVar("K", bound=Hashable)

LATE_MS = 50
"""More than the delay of a busy loop."""
KEYS_AT_ONCE = 200
"""Called before the loop serves other requests: after a stall, or a load, all groups of a broker are due together."""
DRAIN_S = 0.005
"""Long enough for one iteration of the loop that polls all sockets, whether it runs timers or sockets first."""


class DeadlineTimer(Generic[K]):
    """Calls `on_due(key, late_ms)` for keys whose deadline has passed."""

    def __init__(self, clock: Clock, call_later: CallLater, on_due: Callable[[K, int], None]) -> None:
        self._clock = clock
        self._call_later = call_later
        self._on_due = on_due
        self._deadlines: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._last_number = 0
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_draining = False

    def schedule(self, key: K, due_ms: int) -> None:
        """Call for this key at `due_ms` (monotonic) at the latest; an earlier deadline stays in force."""
        known = self._deadlines.get(key)
        if known is not None and known <= due_ms:
            return
        self._deadlines[key] = due_ms
        self._last_number += 1
        heapq.heappush(self._heap, (due_ms, self._last_number, key))
        self._arm()

    def cancel(self, key: K) -> None:
        self._deadlines.pop(key, None)

    def _arm(self) -> None:
        heap, deadlines = self._heap, self._deadlines
        while heap and deadlines.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)  # Cancelled, or scheduled again at an earlier time.
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
        heap, deadlines = self._heap, self._deadlines
        if heap and not self._is_draining and now_ms - heap[0][0] >= LATE_MS:
            self._is_draining = True
            self._timer = self._call_later(DRAIN_S, self._fire)
            return
        self._is_draining = False
        due: deque[tuple[K, int]] = deque()
        while heap and heap[0][0] <= now_ms and len(due) < KEYS_AT_ONCE:
            due_ms, _, key = heapq.heappop(heap)
            if deadlines.get(key) == due_ms:
                del deadlines[key]
                due.append((key, now_ms - due_ms))
        try:
            while due:
                self._on_due(*due.popleft())
        finally:
            for key, late_ms in due:  # One call has raised: the other keys are still due.
                self.schedule(key, now_ms - late_ms)
            self._arm()
