"""A proxy in front of a broker: each client gets a connection to the broker, and bytes are forwarded both ways.

The broker behind it advertises the proxy's address, so that every connection of a client goes through it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

from tests.outside.ports import free_port

LENGTH: Final = struct.Struct(">i")
CONNECT_SECONDS_MAX: Final = 20


class TcpProxy:
    """Listens from its creation to `close`; `behind` is the broker's port."""

    def __init__(self, connected: Callable[[socket.socket, socket.socket], None]) -> None:
        """`connected` gets the client's connection and the broker's, in the order in which clients opened them."""
        self.port = free_port()
        self.behind = 0
        self._connected = connected
        self._server = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        hang_up(self._server)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.behind), timeout=CONNECT_SECONDS_MAX)
            except OSError:
                hang_up(client)
                continue
            broker.settimeout(None)
            self._connected(client, broker)


def received_frame(connection: socket.socket) -> bytes:
    """A request or an answer with its length. Raises EOFError."""
    head = _exactly(connection, LENGTH.size)
    return head + _exactly(connection, LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def hang_up(connection: socket.socket) -> None:
    """End a connection, or stop listening, also where another thread waits at it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
