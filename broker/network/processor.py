"""A processor owns a bounded share of the connections and serves them in slices.

A readable connection is served right in its readiness callback, one bounded slice per round of the loop. What is left
after a slice (more frames than its share, requests that may start again, an error from outside a slice) waits in one
queue, which this processor's coroutine empties in rounds: every ready channel once, then the loop polls again.
No task and no future is made per request; the coroutine sleeps on one future while its queue is empty.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sordini.broker.network.channel import Channel
from sordini.broker.network.limits import ConnectionLimits
from sordini.broker.network.memory import RequestMemory
from sordini.broker.network.outbox import Outbox
from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.network.ports import PageCache, Peer, Service, Socket
from sordini.broker.network.tls_channel import TlsChannel
from sordini.broker.network.tls_socket import BrokerTlsSocket
from sordini.protocol.framing import BufferPool
from sordini.replication.ports import Clock, Logger
from sordini.storage.disk import File
from sordini.system.named_tuple import NamedTuple

CHECKS_MAX = 1024
"""Connections that one tick checks; the next tick continues with the others."""


class ProcessorDeps(NamedTuple):
    """What all processors of a broker share."""

    memory: RequestMemory
    outbox: Outbox
    page_cache: PageCache
    log: Logger
    peer_log: PeerLogLimiter


class Processor:
    """Some of the broker's connections, on the running loop."""

    def __init__(
        self,
        service: Service,
        clock: Clock,
        limits: ConnectionLimits,
        deps: ProcessorDeps,
        on_closed: Callable[[Peer], None],
    ) -> None:
        self.service = service
        self.limits = limits
        self.memory, self.outbox, self.page_cache, self.log, self.peer_log = deps
        self.pool = BufferPool()
        self.buffer = self.pool.take()
        """Where a connection that holds nothing receives; free again when its slice ends."""
        self.now_ms = clock.monotonic_ms()
        """The time of the last tick: precise enough for durations of seconds."""
        self._on_closed = on_closed
        self._channels: dict[Channel, None] = {}
        self._unchecked: Iterator[Channel] = iter(())
        self._ready: deque[Channel] = deque()
        self._sleeper: asyncio.Future[None] | None = None
        self._former_bytes_received = self._former_bytes_sent = 0  # Of closed connections.

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes received and sent since the start, over all connections."""
        channels = self._channels
        return (
            self._former_bytes_received + sum(channel.bytes_received for channel in channels),
            self._former_bytes_sent + sum(channel.bytes_sent for channel in channels),
        )

    @property
    def connections(self) -> int:
        """How many connections it owns."""
        return len(self._channels)

    def adopt(self, socket: Socket, peer: Peer) -> None:
        """Own a new connection."""
        channel = TlsChannel(self, socket, peer) if isinstance(socket, BrokerTlsSocket) else Channel(self, socket, peer)
        self._channels[channel] = None
        channel.open()

    def wake(self, channel: Channel) -> None:
        """Run a slice of the channel in the next round."""
        if not channel.is_ready:
            channel.is_ready = True
            self._ready.append(channel)
            if self._sleeper is not None and not self._sleeper.done():
                self._sleeper.set_result(None)

    def abandon_buffer(self) -> None:
        """A view of the buffer exists: leave it to the view, and take another one."""
        self.pool.abandoned += 1
        self.buffer = self.pool.take()

    def forget(self, channel: Channel) -> None:
        """Called by a channel that has closed."""
        del self._channels[channel]
        self._former_bytes_received += channel.bytes_received
        self._former_bytes_sent += channel.bytes_sent
        self._on_closed(channel.peer)

    async def run(self) -> None:
        """Run slices of ready channels until cancelled."""
        ready = self._ready
        while True:
            if not ready:
                self._sleeper = asyncio.get_running_loop().create_future()
                await self._sleeper
                self._sleeper = None
            for _ in range(len(ready)):
                ready.popleft().run_slice()
            await asyncio.sleep(0)

    def tick(self, now_ms: int, *, may_expire: bool) -> None:
        """Take the time, and close connections that are overdue."""
        self.now_ms = now_ms
        if not may_expire:
            return
        for _ in range(min(CHECKS_MAX, len(self._channels))):
            channel = next(self._unchecked, None)
            if channel is None:
                self._unchecked = iter(list(self._channels))
                channel = next(self._unchecked, None)
            if channel is not None and channel in self._channels:
                channel.check(now_ms)

    def reset_holders(self, file: File, position: int) -> int:
        """Reset every connection that may still send bytes of this file from `position` on; how many there were."""
        holders = [channel for channel in self._channels if channel.may_hold(file, position)]
        for channel in holders:
            channel.close(reset=True)
        return len(holders)

    def drain(self) -> None:
        """Start no further request; close each connection when its responses have been sent."""
        for channel in list(self._channels):
            channel.drain()

    def close(self) -> None:
        """Close every connection now."""
        for channel in list(self._channels):
            channel.close()


class ProcessorRotation:
    """Assigns connections to processors round-robin, skipping full ones."""

    def __init__(self, processors: Sequence[Processor], connections_max: int) -> None:
        self._processors = processors
        self._connections_max = connections_max
        self._next = 0

    def has_room(self) -> bool:
        """Whether any processor can own one more."""
        return any(processor.connections < self._connections_max for processor in self._processors)

    def take(self) -> Processor:
        """The next processor with room; there must be one."""
        assert self.has_room(), "a connection too many was taken"
        while True:
            processor = self._processors[self._next]
            self._next = (self._next + 1) % len(self._processors)
            if processor.connections < self._connections_max:
                return processor
