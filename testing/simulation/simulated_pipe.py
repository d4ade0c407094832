"""One direction of a simulated TCP connection: delay, bounded buffers, order kept, loss only when the link is cut.

    sender --push--> [ on the way, ordered, each with its time of arrival ] --> [ arrived ] --take--> receiver

What counts against `capacity` is everything the receiver has not taken yet, so a reader that sleeps ends up
blocking the writer, exactly as two kernel buffers would.

A piece may be a reference into a file: its bytes are looked up when it arrives, because that is what sendfile
does. Truncating or rewriting the file in between changes what the peer receives; beyond the file's end
the peer receives zeros.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from sordini.system.named_tuple import NamedTuple
from sordini.testing.simulation.virtual_loop import SimLoop


class LinkRules(NamedTuple):
    """How one network behaves. Times in seconds; chances from 0 to 1 for each piece or call."""

    delay_mean: float = 0.002
    delay_least: float = 0.0002
    tail_chance: float = 0.01
    tail_delay: float = 0.25
    short_chance: float = 0.15
    capacity: int = 128 * 1024


class FileReference(NamedTuple):
    """Bytes that are still in a file. `read_at` outlives the sender's descriptor, as pages in a socket do."""

    read_at: Callable[[int, int], bytes]
    position: int
    size: int

    def resolve(self) -> bytes:
        return self.read_at(self.position, self.size).ljust(self.size, b"\0")


class Pipe:
    """One direction. `finished` is an end of file on its way or arrived; `broken` a reset that has arrived."""

    def __init__(self, loop: SimLoop, source: random.Random, rules: LinkRules) -> None:
        self._loop = loop
        self._random = source
        self._rules = rules
        self._on_way: deque[tuple[float, bytes | FileReference | None]] = deque()
        self._timer_is_set = False
        self._last_arrival = 0.0
        self._not_before = 0.0
        self._outstanding = 0
        self.on_way_bytes = 0
        self.arrived = bytearray()
        self.finished = False
        self.broken = False
        self.cut = False
        self._refused: Callable[[], None] | None = None

    @property
    def stalled_until(self) -> float:
        """When the last time ends, or has ended, in which nothing arrives."""
        return self._not_before

    def room(self) -> int:
        """Bytes that the sender's kernel would still take."""
        return max(0, self._rules.capacity - self._outstanding)

    def push(self, data: bytes | FileReference) -> None:
        """Send; the caller has checked `room` before."""
        size = _size(data)
        self._outstanding += size
        self.on_way_bytes += size
        self._send(data)

    def finish(self) -> None:
        """The sender ends its direction; whatever was pushed before arrives first."""
        self._send(None)

    def take(self, size: int) -> bytes:
        """What the receiver reads: at most `size` of the bytes that arrived."""
        taken = bytes(self.arrived[:size])
        del self.arrived[:size]
        self._outstanding -= len(taken)
        self._loop.poll_sockets()
        return taken

    def reset(self) -> None:
        """A reset arrives now: what is on the way is lost, what arrived can still be read."""
        self._on_way.clear()
        self.on_way_bytes = 0
        self.broken = True
        self._loop.poll_sockets()

    def stall(self, seconds: float) -> None:
        """Nothing arrives for a while."""
        self._not_before = max(self._not_before, self._loop.time() + seconds)

    def refuse(self, reset: Callable[[], None]) -> None:
        """The receiver closed its socket: the next bytes that arrive are answered with a reset."""
        self._refused = reset

    def short(self, size: int) -> int:
        """How much of `size` bytes one system call moves: often all, sometimes fewer, at least one."""
        if size > 1 and self._random.random() < self._rules.short_chance:
            return self._random.randint(1, size)
        return size

    def _send(self, piece: bytes | FileReference | None) -> None:
        if self.cut or self.broken:
            return
        when = max(self._last_arrival, self._loop.time() + self.delay())
        self._last_arrival = when
        self._on_way.append((when, piece))
        self._set_timer()

    def delay(self) -> float:
        """Seconds that the next piece takes to the other end."""
        rules = self._rules
        delay = rules.delay_least + self._random.expovariate(1 / rules.delay_mean)
        if self._random.random() < rules.tail_chance:
            delay += self._random.random() * rules.tail_delay
        return delay

    def _set_timer(self) -> None:
        if self._on_way and not self._timer_is_set:
            self._timer_is_set = True
            self._loop.outside_at(max(self._on_way[0][0], self._not_before), self._arrive)

    def _arrive(self) -> None:
        self._timer_is_set = False
        self._loop.poll_sockets()
        now = self._loop.time()
        while self._on_way and not self.cut and max(self._on_way[0][0], self._not_before) <= now:
            _, piece = self._on_way.popleft()
            if piece is None:
                self.finished = True
                continue
            self.on_way_bytes -= _size(piece)
            if self._refused is not None:
                self._refused()
                return
            self.arrived += piece.resolve() if isinstance(piece, FileReference) else piece
        if not self.cut:
            self._set_timer()


def _size(piece: bytes | FileReference) -> int:
    return piece.size if isinstance(piece, FileReference) else len(piece)
