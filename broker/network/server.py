"""The broker's whole network: listeners in front, processors behind, one clock tick for all.

    bind -> start (accept) -> run (until cancelled or closed) -> close (drain with a deadline)

`bind` comes early, so that a taken port stops the start before anything else happens; `start` when the broker can
answer; `close` stops accepting, lets started requests be answered, and then closes every connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sordini.broker.network.acceptor import Acceptor
from sordini.broker.network.connection_quotas import ConnectionQuotas
from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.listener import Listener
from sordini.broker.network.memory import RequestMemory
from sordini.broker.network.outbox import Outbox
from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.network.ports import ListeningSocket, Network, PageCache, Peer, Service
from sordini.broker.network.processor import Processor, ProcessorDeps, ProcessorRotation
from sordini.broker.network.tls_handshakes import Handshakes
from sordini.replication.ports import Clock, Logger
from sordini.storage.disk import File

_STALLED_TICKS = 3  # A tick that is later than this many intervals means that the loop was stalled.


class SocketServer:
    """All listeners and connections of one broker, on the running loop."""

    def __init__(
        self,
        network: Network,
        service: Service,
        clock: Clock,
        page_cache: PageCache,
        log: Logger,
        limits: NetworkLimits = NetworkLimits(),  # noqa: B008 - immutable.
        connection_limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - immutable.
    ) -> None:
        assert limits.processors >= 1, limits.processors
        self._network = network
        self._clock = clock
        self._log = log
        self._limits = limits
        self.memory = RequestMemory(limits.request_memory_bytes_max)
        self.quotas = ConnectionQuotas(limits)
        self._peer_log = PeerLogLimiter(log, clock.monotonic_ms())
        deps = ProcessorDeps(self.memory, Outbox(), page_cache, log, self._peer_log)
        self._processors = [
            Processor(service, clock, connection_limits, deps, self._on_closed) for _ in range(limits.processors)
        ]
        self._rotation = ProcessorRotation(self._processors, limits.processor_connections_max)
        self._ticked_ms = clock.monotonic_ms()
        self.acceptors: dict[str, Acceptor] = {}
        self._handshakes: Handshakes | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False
        self._emptied: asyncio.Future[None] | None = None

    def bind(self, listeners: Sequence[Listener], handshakes: Handshakes | None = None) -> None:
        """Bind every listener; peers wait in the backlog until `start`. Raises OSError naming listener and address.

        `handshakes` are needed by TLS listeners.
        """
        self._handshakes = handshakes
        try:
            for listener in listeners:
                sockets = self._listening(listener)
                self.acceptors[listener.name] = Acceptor(
                    listener, sockets, self.quotas, self._rotation, self._peer_log, handshakes, self._on_closed
                )
        except OSError:
            for acceptor in self.acceptors.values():
                acceptor.close()
            raise

    def _listening(self, listener: Listener) -> list[ListeningSocket]:
        try:
            return self._network.listen(listener.host, listener.port, listener.options)
        except OSError as error:
            where = f"{listener.name}://{listener.host}:{listener.port}"
            raise OSError(error.errno, f"{where}: {error.strerror}") from error

    def address(self, listener: str) -> tuple[str, int]:
        """The bound address of a listener, with the real port."""
        return self.acceptors[listener].address

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes received and sent since the start, over all connections."""
        received, sent = zip(*(processor.traffic for processor in self._processors), strict=True)
        return sum(received), sum(sent)

    def start(self) -> None:
        """Accept connections from now on."""
        for acceptor in self.acceptors.values():
            acceptor.start()

    def connections(self) -> dict[str, int]:
        """Open connections by listener."""
        return {name: self.quotas.of_listener(name) for name in self.acceptors}

    async def run(self) -> None:
        """Serve until cancelled, or until `close` is done."""
        if self._is_closed:
            return  # Closed before it began.
        async with asyncio.TaskGroup() as group:
            self._tasks = [group.create_task(processor.run()) for processor in self._processors]
            self._tasks.append(group.create_task(self._tick_forever()))

    async def close(self, deadline_ms: int) -> None:
        """Stop accepting, let started requests be answered within `deadline_ms`, then close every connection."""
        for acceptor in self.acceptors.values():
            acceptor.close()
        if self._handshakes is not None:
            self._handshakes.close()
        for processor in self._processors:
            processor.drain()
        if self.quotas.total:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=deadline_ms / 1000)
            self._emptied = None
        if self.quotas.total:
            self._log.warning("connections closed with unanswered requests", connections=self.quotas.total)
        for processor in self._processors:
            processor.close()
        self._peer_log.close()
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    def limit_connections(self, limits: NetworkLimits) -> None:
        """Change the connection quotas. Open connections stay; waiting peers may be accepted at once."""
        self.quotas.limits = limits
        for acceptor in self.acceptors.values():
            acceptor.resume()

    def serve_by(self, service: Service) -> None:
        """Let another service answer the requests from now on."""
        for processor in self._processors:
            processor.service = service

    def reset_holders(self, file: File, position: int) -> int:
        """Before a file is truncated at `position`: reset every connection that may still send bytes behind it.

        What `sendfile` took is sent by reference, so a peer could otherwise receive bytes that were written later.
        """
        return sum(processor.reset_holders(file, position) for processor in self._processors)

    def tick(self) -> None:
        """Give every processor the time, and let it close overdue connections. `run` calls this."""
        now_ms = self._clock.monotonic_ms()
        # After a stall of the loop the sockets come first: what has arrived since is not overdue.
        was_stalled = now_ms - self._ticked_ms > _STALLED_TICKS * self._limits.tick_ms
        self._ticked_ms = now_ms
        for processor in self._processors:
            processor.tick(now_ms, may_expire=not was_stalled)
        self._peer_log.tick(now_ms)
        self.memory.tick(may_judge=not was_stalled)

    def _on_closed(self, peer: Peer) -> None:
        self.quotas.closed(peer.listener, peer.address)
        for acceptor in self.acceptors.values():
            acceptor.resume()
        if self._emptied is not None and not self.quotas.total and not self._emptied.done():
            self._emptied.set_result(None)

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(self._limits.tick_ms / 1000)
            self.tick()
