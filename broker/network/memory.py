"""`queued.max.request.bytes`: how much memory unfinished requests of all connections may hold together.

A connection that is at a frame's border holds nothing and is never stopped: at the cap, small requests of others
are still served. What stops is every connection that holds part of a frame: it is not read until memory is free.

If all of them stopped, none could ever finish. So one of them, the longest waiting, goes on beyond the cap (by one
request at most); it gives the pass on when its frame is complete, when it dies, or when it sent nothing for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class Holder(Protocol):
    """A connection, as far as memory is concerned."""

    bytes_received: int
    requests: int

    def resume_reading(self) -> None:
        """Try again: `admit` will be asked first."""


class RequestMemory:
    """The account of one broker. `bytes_max` of -1 means no bound (Apache Kafka's default)."""

    def __init__(self, bytes_max: int = -1) -> None:
        self._bytes_max = bytes_max
        self._waiting: OrderedDict[Holder, None] = OrderedDict()
        self._passed: Holder | None = None
        self._passed_bytes = 0
        self._passed_requests = 0
        self.held_bytes = 0

    @property
    def waiting_count(self) -> int:
        """How many connections are stopped."""
        return len(self._waiting)

    def admit(self, holder: Holder) -> bool:
        """Whether a connection that holds part of a frame may go on; if not, it will be resumed."""
        if self._bytes_max < 0 or self.held_bytes < self._bytes_max:
            return True
        if holder is self._passed:
            if holder.requests == self._passed_requests:
                return True
            self._passed = None  # The pass was for the request that is complete now.
        if self._passed is None and not self._waiting:
            self._give_pass(holder)
            return True
        self._waiting[holder] = None
        if self._passed is None:
            self._resume()
        return False

    def change(self, holder: Holder, before: int, after: int) -> None:
        """A connection's hold changed."""
        self.held_bytes += after - before
        if after == 0:
            self._waiting.pop(holder, None)
            if holder is self._passed:
                self._passed = None
        if after < before and self._waiting:
            self._resume()

    def tick(self) -> None:
        """Called about once a second: a pass that is not used goes to the next."""
        if self._passed is None or not self._waiting:
            return
        if self._passed.bytes_received == self._passed_bytes:
            idle = self._passed
            self._passed = None
            self._resume()
            idle.resume_reading()  # Which asks `admit`, and joins the queue at its end.
        else:
            self._passed_bytes = self._passed.bytes_received

    def _resume(self) -> None:
        """Wake whom there is room for. Each asks `admit` again when its turn comes, so none is counted twice."""
        if self.held_bytes < self._bytes_max:
            waiting, self._waiting = self._waiting, OrderedDict()
            for holder in waiting:
                holder.resume_reading()
        elif self._passed is None:
            holder, _ = self._waiting.popitem(last=False)
            self._give_pass(holder)
            holder.resume_reading()

    def _give_pass(self, holder: Holder) -> None:
        self._passed = holder
        self._passed_bytes = holder.bytes_received
        self._passed_requests = holder.requests
