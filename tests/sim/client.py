"""One connection of a simulated client: requests out, responses back in order, by callbacks on the virtual loop.

Not a client library: it sends exactly what the workload says, and it judges. A response that comes out of order,
for a request that was never sent, or with bytes left over is a `ProtocolViolation`, which fails the run.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, NamedTuple, Protocol

from sordini.broker.network.ports import Socket
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import APIS
from sordini.testing.simulation.simulated_network import Address, SimSocket
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop

RECEIVE_BYTES = 16_384
FRAME_BYTES_MAX = 8 * 1024 * 1024


class ClientSocket(Socket, Protocol):
    """A socket of the simulation, or TLS over one."""

    @property
    def has_pending(self) -> bool: ...

    @property
    def wire(self) -> SimSocket:
        """What the bytes of the connection go over."""


class ClientNetwork(Protocol):
    """Where a client's connections come from: the simulated network, or one with TLS and a login over it."""

    @property
    def loop(self) -> SimLoop: ...

    @property
    def trace(self) -> Trace: ...

    async def connect(self, address: Address) -> ClientSocket: ...


class ProtocolViolation(AssertionError):
    """The broker sent bytes that the protocol does not allow."""


class Disconnected(ConnectionError):
    """The connection ended before the response came: whether the request was carried out is not known."""


class _Awaited(NamedTuple):
    correlation_id: int
    api_key: ApiKey
    version: int
    response: asyncio.Future[Any]


class Connection:
    """A connected client socket. Every future of `request` gets a response or `Disconnected`."""

    def __init__(self, loop: SimLoop, socket: ClientSocket, client_id: str) -> None:
        self._loop = loop
        self._client_id = client_id.encode()
        self._out = bytearray()
        self._in = bytearray()
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self.socket = socket
        self.is_open = True
        self.asleep_until = 0.0
        loop.add_reader(socket, self._on_readable)

    @classmethod
    async def open(cls, network: ClientNetwork, address: Address, client_id: str) -> Connection:
        return cls(network.loop, await network.connect(address), client_id)

    def request(self, api_key: ApiKey, version: int, message: Any) -> asyncio.Future[Any]:
        """Send one request; its response comes through the future, after those of all earlier requests."""
        response: asyncio.Future[Any] = self._loop.create_future()
        if not self.is_open:
            response.set_exception(Disconnected(self._client_id.decode()))
            response.exception()
            return response
        self._correlation_id += 1
        self._awaited.append(_Awaited(self._correlation_id, api_key, version, response))
        self._out += self._frame(api_key, version, message)
        self._on_writable()
        return response

    def send_unanswered(self, api_key: ApiKey, version: int, message: Any) -> None:
        """Send a request that the protocol never answers (a Produce with acks=0)."""
        if self.is_open:
            self._correlation_id += 1
            self._out += self._frame(api_key, version, message)
            self._on_writable()

    def send_raw(self, data: bytes) -> None:
        """Send bytes that need not be a frame."""
        if self.is_open:
            self._out += data
            self._on_writable()

    def stop_reading(self, seconds: float) -> None:
        """Fall asleep with bytes unread."""
        if self.is_open:
            self._loop.remove_reader(self.socket)
            self._loop.call_later(seconds, self._wake)
            self.asleep_until = max(self.asleep_until, self._loop.time() + seconds)

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self.socket)
        self._loop.remove_writer(self.socket)
        self.socket.close()
        for awaited in self._awaited:
            if not awaited.response.done():
                awaited.response.set_exception(Disconnected(self._client_id.decode()))
                # The caller that gave up waiting needs no result either.
                awaited.response.exception()
        self._awaited.clear()

    def _frame(self, api_key: ApiKey, version: int, message: Any) -> bytes:
        header = struct.pack(">hhih", api_key, version, self._correlation_id, len(self._client_id))
        header += self._client_id
        if version >= APIS[api_key].flexible_from:
            header += b"\0"
        body = codecs.encode(message, version)
        return struct.pack(">i", len(header) + len(body)) + header + body

    def _wake(self) -> None:
        if self.is_open:
            self._loop.add_reader(self.socket, self._on_readable)

    def _on_writable(self) -> None:
        try:
            while self._out:
                count = self.socket.send(self._out)
                if count is None:
                    self._loop.add_writer(self.socket, self._on_writable)
                    return
                del self._out[:count]
        except OSError:
            # Bytes that the broker sent before it closed are still to be read; the reader sees the end.
            self._out = bytearray()  # The error's traceback may hold a view of the old one.
        self._loop.remove_writer(self.socket)

    def release(self) -> Any:
        """Give up the socket to the caller: it is not watched any more, and stays open.

        Raises ConnectionResetError when the broker has closed it right after its last response.
        """
        if not self.is_open:
            raise ConnectionResetError("closed by the broker")
        assert not self._awaited
        assert not self._in
        assert not self._out
        self.is_open = False
        self._loop.remove_reader(self.socket)
        return self.socket

    def _on_readable(self) -> None:
        while self._receive() and self.socket.has_pending:
            pass  # What TLS has decrypted, or can, makes the socket below not readable.

    def _receive(self) -> bool:
        """Receive once; whether something came."""
        buffer = bytearray(RECEIVE_BYTES)
        try:
            count = self.socket.recv_into(buffer)
        except OSError:
            count = 0
        if count is None:
            return False
        if not count:
            self.close()
            return False
        self._in += buffer[:count]
        while len(self._in) >= 4 and self._take_frame():
            pass
        return self.is_open

    def _take_frame(self) -> bool:
        size = int.from_bytes(self._in[:4], "big", signed=True)
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise ProtocolViolation(f"a frame of {size} bytes")
        if len(self._in) < 4 + size:
            return False
        frame = memoryview(bytes(self._in[4 : 4 + size]))
        del self._in[: 4 + size]
        self._answer(frame)
        return self.is_open

    def _answer(self, frame: memoryview) -> None:
        if not self._awaited:
            raise ProtocolViolation(f"{frame.nbytes} bytes without a request")
        awaited = self._awaited.popleft()
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != awaited.correlation_id:
            raise ProtocolViolation(f"response {correlation_id} came where {awaited.correlation_id} was due")
        api = APIS[awaited.api_key]
        position = 4
        if awaited.version >= api.flexible_from and awaited.api_key != ApiKey.API_VERSIONS:
            if frame[4] != 0:
                raise ProtocolViolation("the response header has tags")
            position = 5
        message, end = codecs.decode(api.response, awaited.version, frame, position)
        if end != frame.nbytes:
            raise ProtocolViolation(f"{frame.nbytes - end} bytes behind a {awaited.api_key.name} response")
        if not awaited.response.done():
            awaited.response.set_result(message)
