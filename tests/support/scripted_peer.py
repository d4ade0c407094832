"""A scripted peer of the network port, on real sockets and on simulated ones."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from sordini.broker.network.ports import Network, Socket, SocketOptions
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.framing import BufferPool, FrameReader
from sordini.protocol.headers import read_request_header
from sordini.protocol.served_apis import APIS
from tests.support.response_headers import response_header

HOST = "127.0.0.1"


class Asked(NamedTuple):
    """A request as it came."""

    key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    message: Any


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def response(asked: Asked, message: Any, *, correlation_id: int | None = None) -> bytes:
    """A whole response frame to a request."""
    number = asked.correlation_id if correlation_id is None else correlation_id
    header = response_header(APIS[asked.key], asked.version, number)
    return framed(header + codecs.encode(message, asked.version))


class ScriptedPeer:
    """Listens, and answers each request with the bytes that `script` returns for it; None is silence."""

    def __init__(self, network: Network, script: Callable[[Asked], bytes | None], port: int = 0) -> None:
        self._loop = asyncio.get_running_loop()
        self._script = script
        [self._listener] = network.listen(HOST, port, SocketOptions())
        self._sockets: list[Socket] = []
        self._unsent: dict[Socket, bytes] = {}
        self.address = self._listener.address
        self.asked: list[Asked] = []
        self.accepted = 0
        self._news = asyncio.Event()
        self._loop.add_reader(self._listener, self._accept)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something that this peer does has made it true."""
        while not true():
            self._news.clear()
            await self._news.wait()

    def say(self, data: bytes) -> None:
        """Send bytes on the newest connection."""
        self._send(self._sockets[-1], data)

    def hang_up(self, *, reset: bool = False) -> None:
        """Close every connection, and go on listening."""
        for socket in self._sockets:
            self._loop.remove_reader(socket)
            self._loop.remove_writer(socket)
            socket.close(reset=reset)
        self._sockets.clear()
        self._unsent.clear()

    def close(self) -> None:
        self.hang_up()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        socket = self._listener.accept()
        if socket is not None:
            self.accepted += 1
            self._sockets.append(socket)
            reader = FrameReader(1 << 20, BufferPool())
            self._loop.add_reader(socket, lambda: self._receive(socket, reader))
            self._news.set()

    def _receive(self, socket: Socket, reader: FrameReader) -> None:
        try:
            count = socket.recv_into(reader.space())
        except OSError:
            count = 0
        if count == 0:
            self._loop.remove_reader(socket)
            self._loop.remove_writer(socket)
            self._sockets.remove(socket)
            socket.close()
            self._news.set()
            return
        reader.received(count or 0)
        while (frame := reader.next_frame()) is not None:
            header, position = read_request_header(frame)
            api = APIS[header.api_key]
            body, end = codecs.decode(api.request, header.api_version, frame, position)
            assert end == len(frame)
            asked = Asked(api.key, header.api_version, header.correlation_id, header.client_id, body)
            self.asked.append(asked)
            self._news.set()
            answer = self._script(asked)
            if answer is not None and socket in self._sockets:
                self._send(socket, answer)
        reader.settle()

    def _send(self, socket: Socket, data: bytes) -> None:
        rest = self._unsent.pop(socket, b"") + data
        try:
            sent = socket.send(rest) or 0
        except OSError:
            return
        if sent < len(rest):
            self._unsent[socket] = rest[sent:]
            self._loop.add_writer(socket, lambda: self._send(socket, b""))
        else:
            self._loop.remove_writer(socket)
