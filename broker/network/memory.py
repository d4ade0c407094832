"""`queued.max.request.bytes`: a limit on the memory of incomplete requests of all connections together.

A connection between two frames holds nothing, and a frame of at most ADMITTED_BYTES_MAX is always received: a small
request never waits for others' large ones. At the cap only connections in the middle of a larger frame stop: they are
not read until memory is free. One of them, the longest waiting, has a pass: it continues beyond the cap (by one request
at most) until its frame is complete, or until less than PASS_BYTES_MIN of it arrives between two ticks. So at least one
frame can always be completed.

A peer that holds memory and sends nothing would block the others forever. At the cap the connections that progress
least are closed. Progress is the share of a connection's held bytes that arrived recently: the bytes received in a
tick, each tick with half the weight of the next, over the bytes held. Only ticks in which the broker reads the
connection are measured; a connection that the broker itself has stopped reading is not judged.

Invariants, after every call:
  - memory is at most the cap, `slack_bytes`, and one request (the pass holder's);
  - a connection waits only while memory is at the cap, and then one connection has the pass.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

ADMITTED_BYTES_MAX: Final = 1024 * 1024
"""A frame that declares no more than this never waits."""

SLACK_BYTES: Final = 8 * 1024 * 1024
"""How far frames that never wait, and bytes in flight, may exceed the cap; never more than the cap itself."""

PASS_BYTES_MIN: Final = 64 * 1024
"""A connection that receives less than this in a tick loses the pass."""

SILENT_TICKS: Final = 4
"""At the cap a connection that sent nothing of its frame for this many ticks (of half a second) may be closed."""

REFILL_TICKS: Final = 60
"""At the cap, so may one that would need more ticks than this to send its held bytes again."""

REASON: Final = "queued.max.request.bytes is reached and this connection progresses least"


class MemoryHolder(Protocol):
    """A connection, as the memory limit uses it."""

    bytes_received: int
    requests: int

    @property
    def is_awaited(self) -> bool:
        """Whether the broker reads the connection now, so that missing bytes are the peer's delay."""

    def resume_reading(self) -> None:
        """Read again, after another call of `admit`."""

    def shed(self, reason: str) -> None:
        """Close the connection now, which frees its memory through `change`."""


class _Share:
    """Held bytes and progress of one connection."""

    __slots__ = ("held", "is_large", "received", "recent", "silent", "was_stopped")

    def __init__(self, received: int) -> None:
        self.held = 0
        self.is_large = False
        """Whether its frame is larger than ADMITTED_BYTES_MAX."""
        self.received = received
        """The connection's `bytes_received` at the last tick."""
        self.recent = 0
        """Bytes of the past ticks, halved at each tick."""
        self.silent = 0
        """Ticks in a row in which the connection was read and the peer sent nothing."""
        self.was_stopped = False
        """Whether the broker stopped reading it during this tick."""

    def progress(self, received: int) -> float:
        """Recent bytes for each byte held. The added 1 ranks the larger holder lower when nothing arrives."""
        return (self.recent + received - self.received + 1) / self.held


class RequestMemory:
    """The memory of one broker's requests. `bytes_max` of -1 means no limit (Apache Kafka's default)."""

    def __init__(self, bytes_max: int = -1, slack_bytes: int = SLACK_BYTES) -> None:
        self._bytes_max = bytes_max
        self.slack_bytes = min(slack_bytes, max(bytes_max, 0))
        self._shares: dict[MemoryHolder, _Share] = {}
        """Of every connection that holds part of a frame; empty without a limit."""
        self._waiting: OrderedDict[MemoryHolder, None] = OrderedDict()
        self._passed: MemoryHolder | None = None
        self._passed_requests = 0
        self._is_pass_new = False
        self.held_bytes = 0
        self.connections_shed = 0
        """Connections closed for memory since the start."""

    @property
    def waiting_count(self) -> int:
        """How many connections are stopped."""
        return len(self._waiting)

    def admit(self, holder: MemoryHolder, declared_bytes: int) -> bool:
        """Whether a connection that holds part of a frame may be read on; if not, it is resumed later.

        `declared_bytes` is the frame's length, 0 while it is unknown.
        """
        if self._bytes_max < 0:
            return True
        share = self._shares[holder]
        share.is_large = declared_bytes > ADMITTED_BYTES_MAX
        if holder is self._passed:
            if holder.requests == self._passed_requests:
                return True
            self._passed = None  # The pass was for the request that is complete now.
        if self.held_bytes < self._bytes_max or not share.is_large:
            if self._passed is None and self._waiting:
                self._resume()
            return True
        if self._passed is None and not self._waiting:
            self._give_pass(holder)
            return True
        self._waiting[holder] = None
        share.was_stopped = True
        if self._passed is None:
            self._resume()
        return False

    def change(self, holder: MemoryHolder, before: int, after: int) -> None:
        """The held bytes of a connection changed. May close connections, this one included."""
        self.held_bytes += after - before
        if self._bytes_max < 0:
            return
        if after:
            share = self._shares.get(holder)
            if share is None:
                share = self._shares[holder] = _Share(holder.bytes_received - after)
            share.held = after
        else:
            self._shares.pop(holder, None)
            self._waiting.pop(holder, None)
            if holder is self._passed:
                self._passed = None
        if after > before:
            self._shed_excess()
        elif self._waiting:
            self._resume()

    def tick(self, *, may_judge: bool = True) -> None:
        """Called twice a second: measures progress; at the cap, closes connections that make too little.

        After a stall of the loop nothing is judged (`may_judge`): bytes sent during it are not received yet.
        """
        arrived = {holder: self._measure(holder, share) for holder, share in self._shares.items()}
        if not may_judge or not self._shares or self.held_bytes < self._bytes_max:
            return
        slow = [holder for holder, share in self._shares.items() if self._is_slow(holder, share)]
        self._shed(slow, self._bytes_max // 2)
        if self._passed is not None and self._waiting:
            if arrived.get(self._passed, 0) < PASS_BYTES_MIN and not self._is_pass_new:
                self._passed = None  # It is still read: with its next bytes it waits behind the others.
                self._resume()
            else:
                self._is_pass_new = False

    def _measure(self, holder: MemoryHolder, share: _Share) -> int:
        """Record the bytes received since the last tick; returns how many."""
        arrived = holder.bytes_received - share.received
        share.received = holder.bytes_received
        if arrived:
            share.silent = 0
        is_peers_time = holder.is_awaited and not share.was_stopped
        share.was_stopped = not holder.is_awaited
        if is_peers_time:
            share.recent = (share.recent + arrived) // 2
            share.silent += not arrived
        else:
            share.recent = max(share.recent, arrived)
        return arrived

    def _is_slow(self, holder: MemoryHolder, share: _Share) -> bool:
        if not holder.is_awaited:
            return False
        if share.silent >= SILENT_TICKS:
            return True
        return holder is not self._passed and share.progress(share.received) * REFILL_TICKS < 1

    def _shed_excess(self) -> None:
        """Close the connections that progress least until memory is within the bound."""
        passed = self._shares.get(self._passed) if self._passed is not None else None
        bound = self._bytes_max + (0 if passed is None else passed.held)
        if self.held_bytes <= bound + self.slack_bytes:
            return
        self._shed((holder for holder in self._shares if holder is not self._passed), bound)

    def _shed(self, candidates: Iterable[MemoryHolder], bytes_max: int) -> None:
        """Close those of `candidates` that progress least, until memory is at most `bytes_max`."""
        for holder in sorted(candidates, key=self._rank):
            if self.held_bytes <= bytes_max:
                return
            if holder in self._shares:
                self.connections_shed += 1
                holder.shed(REASON)

    def _rank(self, holder: MemoryHolder) -> tuple[bool, int, float]:
        """Order of closing: lagging connections, then large frames, then small ones, each by least progress.

        Connections that wait for the broker's responses come last, whatever they hold.
        """
        share = self._shares[holder]
        progress = share.progress(holder.bytes_received)
        is_peers_part = holder.is_awaited or holder in self._waiting
        lags = share.silent > 0 or progress * REFILL_TICKS < 1
        return not is_peers_part, 0 if lags else 1 if share.is_large else 2, progress

    def _resume(self) -> None:
        """Wake waiting connections when there is room. Each calls `admit` again, so none is counted twice."""
        if self.held_bytes < self._bytes_max:
            waiting, self._waiting = self._waiting, OrderedDict()
            for holder in waiting:
                holder.resume_reading()
        elif self._passed is None and self._waiting:
            holder, _ = self._waiting.popitem(last=False)
            self._give_pass(holder)
            holder.resume_reading()

    def _give_pass(self, holder: MemoryHolder) -> None:
        self._passed = holder
        self._passed_requests = holder.requests
        self._is_pass_new = True
