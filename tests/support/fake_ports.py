"""A server on loopback with a scripted service, a clock that stands still, and clients that are plain sockets."""

import asyncio
import contextlib
import errno
import os
import socket
import struct

from sordini.broker.network.limits import ConnectionLimits, Listener, NetworkLimits
from sordini.broker.network.ports import Pending
from sordini.broker.network.server import SocketServer
from sordini.broker.network.sockets import SystemNetwork
from sordini.protocol.errors import WireError

PRODUCE, FETCH, METADATA = 0, 1, 3


class StillClock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.ms = 1_000_000

    def now_ms(self):
        return self.ms

    def monotonic_ms(self):
        return self.ms


class ListLog:
    """Log lines as (level, event, fields)."""

    def __init__(self):
        self.lines = []
        self.level = "info"

    def __getattr__(self, level):
        return lambda event, **fields: self.lines.append((level, event, fields))

    def at(self, level):
        return [(event, fields) for found, event, fields in self.lines if found == level]


class WarmCache:
    """A page cache that holds everything, until it is told otherwise."""

    def __init__(self):
        self.is_cold = False
        self.warmed = []
        self.gate = None

    def is_warm(self, file, position, size):
        return not self.is_cold

    async def warm(self, file, position, size):
        self.warmed.append((position, size))
        if self.gate is not None:
            await self.gate.wait()


class FakeFile:
    """An open file of the system's, as far as the network looks at it."""

    def __init__(self, path, content=b""):
        path.write_bytes(content)
        self.path = str(path)
        self.descriptor = os.open(path, os.O_RDWR)

    def fileno(self):
        if self.descriptor < 0:
            raise OSError(errno.EBADF, "closed")
        return self.descriptor

    def read_at(self, position, size):
        return os.pread(self.fileno(), size, position)

    def newest(self, position, size):
        return None

    def close(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class FakeSlice:
    """A slice that counts its releases."""

    def __init__(self, file, position, size):
        self.file, self.position, self.size = file, position, size
        self.released = 0

    def release(self):
        self.released += 1
        assert self.released == 1, "released twice"


def request(api=METADATA, tag=0, padding=0):
    """A request frame that the scripted service understands: key, tag, padding."""
    body = struct.pack(">hI", api, tag) + bytes(padding)
    return struct.pack(">i", len(body)) + body


def answer(tag, padding=0):
    body = struct.pack(">I", tag) + bytes(padding)
    return struct.pack(">i", len(body)) + body


class ScriptedService:
    """Answers with the request's tag; requests with a tag in `parked` wait, others follow `answers`."""

    def __init__(self):
        self.served = []
        self.peers = []
        self.parked = {}
        self.park_tags = set()
        self.answers = {}
        self.abandoned = []

    def serve(self, peer, frame):
        (tag,) = struct.unpack_from(">I", frame, 2)
        self.served.append(tag)
        self.peers.append(peer)
        if tag in self.park_tags:
            pending = Pending(lambda: self.abandoned.append(tag))
            self.parked[tag] = pending
            return pending
        made = self.answers.get(tag, answer(tag))
        if isinstance(made, Exception):
            raise made
        if callable(made):
            made = made()
        return [made] if isinstance(made, bytes) else made


class Bench:
    """A running server and what stands around it."""

    def __init__(self, limits=None, connection_limits=None, *, use_sendfile=True, listeners=None):
        self.clock = StillClock()
        self.log = ListLog()
        self.cache = WarmCache()
        self.service = ScriptedService()
        self.server = SocketServer(
            SystemNetwork(use_sendfile=use_sendfile),
            self.service,
            self.clock,
            self.cache,
            self.log,
            limits or NetworkLimits(),
            connection_limits or ConnectionLimits(),
        )
        self.listeners = listeners or [Listener("PLAINTEXT", "127.0.0.1", 0)]
        self.clients = []

    async def __aenter__(self):
        self.server.bind(self.listeners)
        self.server.start()
        self.task = asyncio.create_task(self.server.run())
        return self

    async def __aexit__(self, *failure):
        for client in self.clients:
            client.close()
        with contextlib.suppress(BaseException) if failure[0] else contextlib.nullcontext():
            await self.server.close(0)
            await self.task

    async def connect(self, listener="PLAINTEXT", receive_buffer=None):
        address = self.server.address(listener)
        client = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        client.setblocking(False)
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.clients.append(client)
        await asyncio.get_running_loop().sock_connect(client, address)
        return client

    def channels(self):
        """The server's side of every connection."""
        return [channel for processor in self.server._processors for channel in processor._channels]

    async def pass_time(self, ms):
        """Let time go by in steps, as a loop that is not held up sees it."""
        while ms > 0:
            self.clock.ms += min(ms, 1000)
            ms -= 1000
            self.server.tick()
            await asyncio.sleep(0)


async def until(condition):
    """Run the loop until something has happened; a test that waits for ever fails by the time limit."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in sockets, not in our code.
            await asyncio.sleep(0)


async def send(client, data):
    await asyncio.get_running_loop().sock_sendall(client, data)


async def receive(client, size):
    """Exactly so many bytes, fewer at the end of the stream."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    async with asyncio.timeout(10):
        while len(data) < size:
            chunk = await loop.sock_recv(client, size - len(data))
            if not chunk:
                break
            data += chunk
    return bytes(data)


async def receive_tags(client, count):
    """The tags of so many answers."""
    tags = []
    for _ in range(count):
        (size,) = struct.unpack(">i", await receive(client, 4))
        body = await receive(client, size)
        tags.append(struct.unpack_from(">I", body)[0])
    return tags


def reset(client):
    """Hang up without a word."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def is_closed(client):
    """Whether the server has ended the connection (what it sent before is thrown away)."""
    try:
        async with asyncio.timeout(10):
            while await asyncio.get_running_loop().sock_recv(client, 65536):
                pass
    except ConnectionError:
        pass
    return True


def wrong(text):
    return WireError(text)
