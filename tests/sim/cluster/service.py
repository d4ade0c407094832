"""The server side of an actor: accepts connections, decodes requests, and answers late, or never, as `answer` says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from sordini.broker.network.ports import SocketOptions
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_request_header
from sordini.protocol.served_apis import APIS
from sordini.testing.simulation.simulated_network import Address, SimListeningSocket, SimNetwork, SimSocket
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.sim.client import ClientSocket
from tests.support.response_headers import response_header

RECEIVE_BYTES = 16_384


class Reply(NamedTuple):
    """An answer and how it goes out. No message: nothing is ever answered."""

    message: Any
    delay_s: float = 0.0
    hangs_up: bool = False
    """Close the connection instead: the sender does not learn the outcome."""


Answer = Callable[[ApiKey, int, Any], Reply]


class ServiceSecurity(Protocol):
    """TLS and logins of connections that are accepted."""

    def accepted(self, socket: SimSocket, serve: Callable[[ClientSocket, Answer], None], answer: Answer) -> None:
        """Let `serve` have the connection once it is secured, with the answers of this connection."""


class Service:
    """Listens on one address until the simulation ends. `answer` gets API key, version and request."""

    def __init__(
        self, network: SimNetwork, address: Address, answer: Answer, security: ServiceSecurity | None = None
    ) -> None:
        """With `security` connections come with TLS and a login."""
        self._network = network
        self._security = security
        self._answer = answer
        self._listener: SimListeningSocket = network.listen(*address, SocketOptions(0, 0, 50, 0))[0]
        network.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        socket = self._listener.accept()
        if socket is None:
            return
        if self._security is None:
            self._serve(socket, self._answer)
        else:
            self._security.accepted(socket, self._serve, self._answer)

    def _serve(self, socket: ClientSocket, answer: Answer) -> None:
        _Served(self._network.loop, socket, answer)


class _Served:
    """One accepted connection; its answers leave in the order of its requests."""

    def __init__(self, loop: SimLoop, socket: ClientSocket, answer: Answer) -> None:
        self._loop = loop
        self._socket = socket
        self._answer = answer
        self._in = bytearray()
        self._out = bytearray()
        self._is_open = True
        self._not_before = 0.0
        loop.add_reader(socket, self._on_readable)
        if socket.has_pending:
            self._on_readable()  # The first request may have come with the end of a handshake.

    def _on_readable(self) -> None:
        while self._receive() and self._socket.has_pending:
            pass

    def _receive(self) -> bool:
        """Receive once; whether something came."""
        buffer = bytearray(RECEIVE_BYTES)
        try:
            count = self._socket.recv_into(buffer)
        except OSError:
            count = 0
        if count is None:
            return False
        if not count:
            self._close()
            return False
        self._in += buffer[:count]
        while self._is_open and len(self._in) >= 4:
            size = int.from_bytes(self._in[:4], "big")
            if len(self._in) < 4 + size:
                break
            frame = memoryview(bytes(self._in[4 : 4 + size]))
            del self._in[: 4 + size]
            self._serve(frame)
        return self._is_open

    def _serve(self, frame: memoryview) -> None:
        header, position = read_request_header(frame)
        api = APIS[header.api_key]
        request, end = codecs.decode(api.request, header.api_version, frame, position)
        assert end == frame.nbytes, f"{frame.nbytes - end} bytes behind a {api.key.name} request"
        reply = self._answer(api.key, header.api_version, request)
        self._not_before = max(self._not_before, self._loop.time() + reply.delay_s)
        if reply.hangs_up:
            self._loop.call_at(self._not_before, self._close)
        elif reply.message is not None:
            body = response_header(api, header.api_version, header.correlation_id)
            body += codecs.encode(reply.message, header.api_version)
            self._loop.call_at(self._not_before, self._send, struct.pack(">i", len(body)) + body)

    def _send(self, data: bytes) -> None:
        if self._is_open:
            self._out += data
            self._on_writable()

    def _on_writable(self) -> None:
        try:
            while self._out:
                count = self._socket.send(self._out)
                if count is None:
                    self._loop.add_writer(self._socket, self._on_writable)
                    return
                del self._out[:count]
        except OSError:
            self._out = bytearray()
        self._loop.remove_writer(self._socket)

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
