"""A client connection for programs without an event loop, such as Spark's Python workers.

A request may be sent before its response is read (`send`, later `receive`), so that a fetch is in flight while the
records of the one before are decoded. After any error the connection is closed. An error of the socket is the cause of
the Disconnected that is raised.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from sordini.client.addresses import Address
from sordini.client.cluster_core import cannot_reach
from sordini.client.connection import ClientConnection
from sordini.client.errors import Disconnected, lost, too_late
from sordini.client.ports import Transport
from sordini.client.versions import Steps, T

_SECONDS_MIN = 0.001
"""A socket's timeout of 0 would make it non-blocking."""


class SocketTransport:
    """A connected socket, plain or TLS."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytearray, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    def receive_into(self, buffer: bytearray | memoryview, seconds: float) -> int:
        self._socket.settimeout(seconds)
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        self._socket.close()


def open_socket(address: Address, seconds: float) -> socket.socket:
    """A connected TCP socket. Raises Unreachable; `seconds` are for each of the host's addresses."""
    try:
        connected = socket.create_connection(address, timeout=seconds)
    except (OSError, UnicodeError) as error:
        raise cannot_reach(address, error, seconds) from None
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connected


def start_tls(connected: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """The TLS handshake on a connected socket, which is closed when it fails. Raises OSError (an SSLError is one)."""
    try:
        return context.wrap_socket(connected, server_hostname=host)
    except OSError:
        connected.close()
        raise


class BlockingConnection:
    """A transport and the requests in flight on it. One thread uses it."""

    def __init__(
        self, transport: Transport, protocol: ClientConnection, monotonic: Callable[[], float], timeout_s: float
    ) -> None:
        """`monotonic` is a clock in seconds; `timeout_s` is for sending one request, and for receiving one response."""
        self.is_open = True
        self._transport = transport
        self._protocol = protocol
        self._monotonic = monotonic
        self._timeout_s = timeout_s

    @property
    def in_flight(self) -> int:
        """How many requests have no response yet."""
        return self._protocol.in_flight

    def send(self, request: Any, version: int) -> None:
        """Send a request message and do not wait for its response. Raises Disconnected."""
        self._check_open()
        frame = self._protocol.send(request, version)
        try:
            self._transport.send(frame, self._timeout_s)
        except OSError as error:
            raise self._lost(error, self._timeout_s) from error
        except BaseException:  # Raised again - half a request may be written.
            self.close()
            raise

    def receive(self, timeout_s: float | None = None) -> Any:
        """Wait for the response to the oldest request in flight. Raises Disconnected, InvalidResponse.

        Records in it are views of memory of its own. `timeout_s` is for this response, None: as for all.
        """
        self._check_open()
        seconds = self._timeout_s if timeout_s is None else timeout_s
        try:
            return self._receive(seconds)
        except OSError as error:
            raise self._lost(error, seconds) from error
        except BaseException:  # Raised again - half a response may be read.
            self.close()
            raise

    def request(self, request: Any, version: int) -> Any:
        """Send a request and wait for its response."""
        self.send(request, version)
        return self.receive()

    def run(self, steps: Steps[T]) -> T:
        """Carry out an exchange such as `negotiate()`; its result. Raises what `request` and the steps raise."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self.request(*step))
        except StopIteration as end:
            result: T = end.value
            return result

    def close(self) -> None:
        """Close; may be called again."""
        self.is_open = False
        self._transport.close()

    def _check_open(self) -> None:
        if not self.is_open:
            raise Disconnected(f"the connection to {self._protocol.peer} is closed")

    def _lost(self, error: OSError, seconds: float) -> Disconnected:
        self.close()
        peer = self._protocol.peer
        return too_late(peer, seconds) if isinstance(error, TimeoutError) else lost(peer, error)

    def _receive(self, timeout_s: float) -> Any:
        protocol = self._protocol
        # The time begins now, not when the request was sent: the response may have been waiting for long.
        deadline = self._monotonic() + timeout_s
        message = protocol.received(0)
        while message is None:
            seconds = max(deadline - self._monotonic(), _SECONDS_MIN)
            count = self._transport.receive_into(protocol.space(), seconds)
            if not count:
                raise lost(self._protocol.peer)
            message = protocol.received(count)
        return message
