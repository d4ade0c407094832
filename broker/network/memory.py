"""`queued.max.request.bytes`: how much memory unfinished requests of all connections may hold together.

A connection at a frame's border holds nothing, and a frame of at most ADMITTED_BYTES_MAX is always received: an honest
small request never waits for others' large ones. At the cap only connections in the middle of a larger frame stop:
they are not read until memory is free. One of them, the longest waiting, has a pass: it goes on beyond the cap (by one
request at most) until its frame is complete, or until less than PASS_BYTES_MIN of it arrives between two ticks. So
some frame can always be finished.

A peer that holds memory and sends nothing would keep the others waiting for ever. At the cap the connections that
progress least are closed. Progress is the share of what a connection holds that arrived lately: the bytes received in
a tick, each tick counting half as much as the next, over the bytes held. Time counts only while the broker reads the
connection; a connection that the broker itself keeps waiting is not judged by it.

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
"""How far frames that never wait, and bytes already under way, may exceed the cap; never more than the cap itself."""

PASS_BYTES_MIN: Final = 64 * 1024
"""The pass moves on from a connection that receives less than this in a tick."""

SILENT_TICKS: Final = 4
"""At the cap a connection that sent nothing of its frame for so many ticks (of half a second) may be closed."""

REFILL_TICKS: Final = 60
"""At the cap, so may one that needs more ticks than this to send again what it holds."""

REASON: Final = "queued.max.request.bytes is reached and this connection progresses least"


class Holder(Protocol):
    """A connection, as far as memory is concerned."""

    bytes_received: int
    requests: int

    @property
    def is_awaited(self) -> bool:
        """Whether the broker reads the connection now, so that what is missing is the peer's to send."""

    def resume_reading(self) -> None:
        """Try again: `admit` is asked first."""

    def shed(self, reason: str) -> None:
        """Close the connection now, which gives its memory back through `change`."""


class _Share:
    """What one connection holds, and how it progresses."""

    __slots__ = ("held", "is_large", "received", "recent", "silent", "was_stopped")

    def __init__(self, received: int) -> None:
        self.held = 0
        self.is_large = False
        """Whether its frame is one that may have to wait."""
        self.received = received
        """The connection's `bytes_received` at the last tick."""
        self.recent = 0
        """Bytes of the ticks so far, each tick halved by the next."""
        self.silent = 0
        """Ticks in a row in which the connection was read and sent nothing."""
        self.was_stopped = False
        """Whether the broker kept it waiting during this tick."""

    def progress(self, received: int) -> float:
        """Bytes received lately for each byte held. The one more keeps the larger hold behind when nothing arrives."""
        return (self.recent + received - self.received + 1) / self.held


class RequestMemory:
    """The account of one broker. `bytes_max` of -1 means no bound (Apache Kafka's default)."""

    def __init__(self, bytes_max: int = -1, slack_bytes: int = SLACK_BYTES) -> None:
        self._bytes_max = bytes_max
        self.slack_bytes = min(slack_bytes, max(bytes_max, 0))
        self._shares: dict[Holder, _Share] = {}
        """Of every connection that holds part of a frame; empty without a bound."""
        self._waiting: OrderedDict[Holder, None] = OrderedDict()
        self._passed: Holder | None = None
        self._passed_requests = 0
        self._is_pass_new = False
        self.held_bytes = 0
        self.connections_shed = 0
        """Connections closed for memory since the start."""

    @property
    def waiting_count(self) -> int:
        """How many connections are stopped."""
        return len(self._waiting)

    def admit(self, holder: Holder, declared_bytes: int) -> bool:
        """Whether a connection that holds part of a frame may go on; if not, it will be resumed.

        `declared_bytes` is the frame's length, 0 while that is not known.
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

    def change(self, holder: Holder, before: int, after: int) -> None:
        """A connection's hold changed. May close connections, this one included."""
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

        After a stall of the loop nothing is judged (`may_judge`): what was sent meanwhile is not yet received.
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

    def _measure(self, holder: Holder, share: _Share) -> int:
        """Note what has arrived since the last tick; how much that was."""
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

    def _is_slow(self, holder: Holder, share: _Share) -> bool:
        if not holder.is_awaited:
            return False
        if share.silent >= SILENT_TICKS:
            return True
        return holder is not self._passed and share.progress(share.received) * REFILL_TICKS < 1

    def _shed_excess(self) -> None:
        """Keep to the bound: close what progresses least, whoever waits for whom."""
        passed = self._shares.get(self._passed) if self._passed is not None else None
        bound = self._bytes_max + (0 if passed is None else passed.held)
        if self.held_bytes <= bound + self.slack_bytes:
            return
        self._shed((holder for holder in self._shares if holder is not self._passed), bound)

    def _shed(self, candidates: Iterable[Holder], bytes_max: int) -> None:
        """Close those of `candidates` that progress least, until memory is at most `bytes_max`."""
        for holder in sorted(candidates, key=self._rank):
            if self.held_bytes <= bytes_max:
                return
            if holder in self._shares:
                self.connections_shed += 1
                holder.shed(REASON)

    def _rank(self, holder: Holder) -> tuple[bool, int, float]:
        """What is closed first: what lags, then large frames, then small ones, each with the least progress first.

        Connections that wait for answers of ours come last, whatever they hold.
        """
        share = self._shares[holder]
        progress = share.progress(holder.bytes_received)
        is_peers_part = holder.is_awaited or holder in self._waiting
        lags = share.silent > 0 or progress * REFILL_TICKS < 1
        return not is_peers_part, 0 if lags else 1 if share.is_large else 2, progress

    def _resume(self) -> None:
        """Wake whom there is room for. Each asks `admit` again in its turn, so none is counted twice."""
        if self.held_bytes < self._bytes_max:
            waiting, self._waiting = self._waiting, OrderedDict()
            for holder in waiting:
                holder.resume_reading()
        elif self._passed is None and self._waiting:
            holder, _ = self._waiting.popitem(last=False)
            self._give_pass(holder)
            holder.resume_reading()

    def _give_pass(self, holder: Holder) -> None:
        self._passed = holder
        self._passed_requests = holder.requests
        self._is_pass_new = True
