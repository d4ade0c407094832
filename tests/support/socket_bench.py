"""A bench of loopback sockets: a server with a scripted service and a manual clock, and plain sockets as clients."""

import asyncio
import contextlib
import socket
import struct

from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.listener import Listener
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.network.server import SocketServer
from sordini.broker.network.sockets import SystemNetwork
from sordini.protocol.errors import WireError
from tests.support.fake_ports import ListLog, StillClock, WarmCache

PRODUCE, FETCH, METADATA = 0, 1, 3


def request(api=METADATA, tag=0, padding=0):
    """A request frame that the scripted service understands: key, tag, padding."""
    body = struct.pack(">hI", api, tag) + bytes(padding)
    return struct.pack(">i", len(body)) + body


def answer(tag, padding=0):
    body = struct.pack(">I", tag) + bytes(padding)
    return struct.pack(">i", len(body)) + body


class ScriptedService:
    """Answers with the request's tag; requests with a tag in `park_tags` wait, others use `answers`."""

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
            pending = DelayedResponse(lambda: self.abandoned.append(tag))
            self.parked[tag] = pending
            return pending
        made = self.answers.get(tag, answer(tag))
        if isinstance(made, Exception):
            raise made
        if callable(made):
            made = made()
        return [made] if isinstance(made, bytes) else made


class Bench:
    """A running server with its fakes and clients."""

    def __init__(self, limits=None, connection_limits=None, *, use_sendfile=True, listeners=None, service=None):
        self.clock = StillClock()
        self.log = ListLog()
        self.cache = WarmCache()
        self.service = service or ScriptedService()
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
        """Advance the clock in steps, as on a loop without stalls."""
        while ms > 0:
            self.clock.ms += min(ms, 1000)
            ms -= 1000
            self.server.tick()
            await asyncio.sleep(0)


async def until(condition):
    """Run the loop until a condition holds; fails after 10 s."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition depends on sockets, not on asyncio events.
            await asyncio.sleep(0)


async def send(client, data):
    await asyncio.get_running_loop().sock_sendall(client, data)


async def receive(client, size):
    """Exactly `size` bytes; fewer at the end of the stream."""
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
    """The tags of `count` responses."""
    tags = []
    for _ in range(count):
        (size,) = struct.unpack(">i", await receive(client, 4))
        body = await receive(client, size)
        tags.append(struct.unpack_from(">I", body)[0])
    return tags


def reset(client):
    """Close with a TCP reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def is_closed(client):
    """Whether the server has closed the connection (bytes sent before are discarded)."""
    try:
        async with asyncio.timeout(10):
            while await asyncio.get_running_loop().sock_recv(client, 65536):
                pass
    except ConnectionError:
        pass
    return True


def wrong(text):
    return WireError(text)
