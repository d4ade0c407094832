"""The network port on virtual time: listening sockets, connected sockets, and the ways in which links fail.

Sockets are shaped like non-blocking system calls, as the port says: None for would-block, short counts, 0 for the
end of file, `ConnectionResetError` and `BrokenPipeError` for a dead peer. A simulated descriptor number is never used
twice, and closing a socket that the loop still watches is an assertion: on a real loop it silences the next socket
with that number.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence

from sordini.broker.network.ports import Buffer, ListeningSocket, SliceError, SocketOptions
from sordini.storage.disk import File
from sordini.testing.brokers.loop_processes import LoopProcess, current_process
from sordini.testing.simulation.simulated_disk import page_reader
from sordini.testing.simulation.simulated_pipe import FileReference, LinkRules, Pipe
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop

Address = tuple[str, int]
FIRST_CLIENT_PORT = 40_000
CONNECT_TIMEOUT_MS = 10_000


class SimSocket:
    """One end of a connection."""

    def __init__(self, network: SimNetwork, number: int, local: Address, remote: Address) -> None:
        self.number = number
        self._local = local
        self._remote = remote
        self._network = network
        self.owner = current_process()
        self._closed = False
        self.inward: Pipe
        self.outward: Pipe

    # Called by the loop.

    def is_readable(self) -> bool:
        return bool(self.inward.arrived) or self.inward.finished or self.inward.broken

    def is_writable(self) -> bool:
        return self.outward.room() > 0 or self.outward.broken

    # What the port offers.

    has_pending = False
    """As of a TLS socket: nothing is held back here."""

    @property
    def wire(self) -> SimSocket:
        """Of a TLS socket the simulated one below."""
        return self

    def fileno(self) -> int:
        return -1 if self._closed else self.number

    @property
    def peer_address(self) -> Address:
        return self._remote

    @property
    def local_address(self) -> Address:
        return self._local

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        self._check()
        view = memoryview(buffer)
        data = self.inward.take(self.inward.short(view.nbytes))
        if data:
            view[: len(data)] = data
            self._network.trace.note("recv", self.number, len(data))
            return len(data)
        if self.inward.broken:
            raise ConnectionResetError(104, "Connection reset by peer")
        return 0 if self.inward.finished else None

    def send(self, data: Buffer, *, more: bool = False) -> int | None:
        view = memoryview(data).cast("B")
        size = self._sendable(view.nbytes)
        if size:
            self.outward.push(bytes(view[:size]))
            self._network.trace.note("send", self.number, size, more)
        return size

    def send_many(self, buffers: Sequence[Buffer], *, more: bool = False) -> int | None:
        return self.send(b"".join(buffers), more=more)

    def sendfile(self, file: File, position: int, size: int) -> int | None:
        self._check()
        try:
            there = min(size, file.size() - position)
        except OSError as error:
            raise SliceError(f"{file.path}: {error}") from error
        if there <= 0:
            return 0
        count = self._sendable(there)
        if count:
            self.outward.push(FileReference(page_reader(file), position, count))
            self._network.trace.note("sendfile", self.number, position, count)
        return count

    def unsent(self) -> int:
        return self.outward.on_way_bytes

    def close(self, *, reset: bool = False) -> None:
        if self._closed:
            return
        assert not self._network.loop.is_registered(self), f"socket {self.number} is closed while it is watched"
        self._check_alive()
        if reset:
            self.reset()
        self.close_by_kernel()

    def close_by_kernel(self) -> None:
        """Unread bytes make the close a reset, as on Linux; else what was sent still arrives, then the end."""
        if self._closed:
            return
        self._closed = True
        self._network.trace.note("close", self.number)
        if self.inward.arrived:
            self.reset()
        else:
            self.outward.finish()
            # Bytes that come for a closed socket are answered with a reset.
            self.inward.refuse(self.reset)
        self._network.forget(self)

    def reset(self) -> None:
        """Both directions end now, for both ends."""
        self._network.trace.note("reset", self.number)
        self.inward.reset()
        self.outward.reset()

    def cut(self) -> None:
        """The peer becomes half-open: nothing arrives any more in either direction, and neither end is notified."""
        self._network.trace.note("cut", self.number)
        self.inward.cut = True
        self.outward.cut = True

    def _sendable(self, size: int) -> int | None:
        self._check()
        if self.outward.broken:
            raise BrokenPipeError(32, "Broken pipe")
        room = self.outward.room()
        if room == 0 and size:
            return None
        return self.outward.short(min(room, size))

    def _check(self) -> None:
        self._network.loop.count_call()
        self._check_alive()
        if self._closed:
            raise OSError(9, "Bad file descriptor")

    def _check_alive(self) -> None:
        if self.owner is not None:
            self.owner.check_alive()


class SimListeningSocket:
    """A bound address with a bounded queue of connections that wait to be accepted."""

    def __init__(self, network: SimNetwork, number: int, address: Address, backlog: int) -> None:
        self.number = number
        self.address = address
        self._network = network
        self._owner = current_process()
        self._backlog = backlog
        self._closed = False
        self._waiting: deque[SimSocket] = deque()

    def is_readable(self) -> bool:
        return bool(self._waiting)

    def is_writable(self) -> bool:
        return False

    def fileno(self) -> int:
        return -1 if self._closed else self.number

    def accept(self) -> SimSocket | None:
        self._check()
        if not self._waiting:
            return None
        socket = self._waiting.popleft()
        socket.owner = current_process()
        self._network.trace.note("accept", socket.number)
        return socket

    def offer(self, socket: SimSocket) -> bool:
        """A connection arrives; False when the queue is full."""
        if len(self._waiting) >= self._backlog:
            return False
        self._waiting.append(socket)
        self._network.loop.poll_sockets()
        return True

    def close(self) -> None:
        if self._closed:
            return
        assert not self._network.loop.is_registered(self), f"{self.address} is closed while it is watched"
        if self._owner is not None:
            self._owner.check_alive()
        self.close_by_kernel()

    def close_by_kernel(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._network.forget_listener(self)
        for socket in self._waiting:
            socket.reset()

    @property
    def owner(self) -> LoopProcess | None:
        return self._owner

    def _check(self) -> None:
        if self._owner is not None:
            self._owner.check_alive()
        if self._closed:
            raise OSError(9, "Bad file descriptor")


class SimNetwork:
    """All links of one simulated network. `rules` may be replaced while it runs; new connections follow them."""

    def __init__(self, loop: SimLoop, trace: Trace, seed: int = 0, rules: LinkRules | None = None) -> None:
        self.loop = loop
        self.trace = trace
        self.rules = rules or LinkRules()
        # While this is False every connection is refused: time to look at a broker before anybody uses it.
        self.admits = True
        self._seed = seed
        self._numbers = 2
        self._ports = FIRST_CLIENT_PORT
        self._listeners: dict[Address, SimListeningSocket] = {}
        self._sockets: dict[int, SimSocket] = {}
        self._known: dict[LoopProcess, None] = {}
        loop.socket_of = self._sockets.get

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        """Bind; raises OSError when the address is taken. Port 0 picks a free one."""
        if port == 0:
            port = self._next_port()
        if (host, port) in self._listeners:
            raise OSError(98, f"Address already in use: {host}:{port}")
        self._watch_owner()
        listener = SimListeningSocket(self, self._next_number(), (host, port), options.backlog)
        self._listeners[host, port] = listener
        return [listener]

    async def connect(
        self, address: Address, options: SocketOptions | None = None, timeout_ms: int = CONNECT_TIMEOUT_MS
    ) -> SimSocket:
        """Open a connection, owned by the simulated process whose code calls.

        Raises ConnectionRefusedError, after the time it takes to learn that, and TimeoutError.
        """
        del options  # Only a kernel needs them.
        client, server = self._pair(address)
        await self._arrival(client, timeout_ms / 1_000)
        listener = self._listeners.get(address)
        if not self.admits or listener is None or not listener.offer(server):
            self.trace.note("refused", client.number)
            raise ConnectionRefusedError(111, "Connection refused")
        server.owner = listener.owner
        self.trace.note("connect", client.number, server.number)
        for socket in (client, server):
            self._sockets[socket.number] = socket
        self._watch_owner()
        return client

    def connections(self, owner: LoopProcess) -> list[SimSocket]:
        """The open sockets of a process, oldest first."""
        return [socket for socket in self._sockets.values() if socket.owner is owner]

    def forget(self, socket: SimSocket) -> None:
        self._sockets.pop(socket.number, None)

    def forget_listener(self, listener: SimListeningSocket) -> None:
        self._listeners.pop(listener.address, None)

    def _pair(self, address: Address) -> tuple[SimSocket, SimSocket]:
        local = ("10.0.0.1", self._next_port())
        client = SimSocket(self, self._next_number(), local, address)
        server = SimSocket(self, self._next_number(), address, local)
        # Every connection has its own source: one more draw on one of them does not change the others.
        source = random.Random(f"network {self._seed} {client.number}")
        client.inward = server.outward = Pipe(self.loop, source, self.rules)
        server.inward = client.outward = Pipe(self.loop, source, self.rules)
        return client, server

    async def _arrival(self, client: SimSocket, seconds_max: float) -> None:
        delay = client.outward.delay()
        await asyncio.sleep(min(delay, seconds_max))
        if delay > seconds_max:
            self.trace.note("connect timed out", client.number)
            raise TimeoutError(110, "Connection timed out")

    def _watch_owner(self) -> None:
        process = current_process()
        if process is not None and process not in self._known:
            self._known[process] = None
            process.on_death(lambda: self._bury(process))

    def _bury(self, process: LoopProcess) -> None:
        for listener in [each for each in self._listeners.values() if each.owner is process]:
            listener.close_by_kernel()
        for socket in self.connections(process):
            socket.close_by_kernel()

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _next_port(self) -> int:
        self._ports += 1
        return self._ports
