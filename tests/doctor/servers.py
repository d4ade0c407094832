"""Servers that are no brokers, on 127.0.0.1: each says what its protocol would say to a Kafka client."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.tcp_proxy import hang_up

Serve = Callable[[socket.socket], None]
PATIENCE_S = 20


@contextmanager
def serving(serve: Serve) -> Iterator[int]:
    """The port of a server that calls `serve` for each connection, in a thread."""
    server = socket.create_server(("127.0.0.1", 0), backlog=64)

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            client.settimeout(PATIENCE_S)
            threading.Thread(target=attend, args=(client,), daemon=True).start()

    def attend(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            serve(client)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        hang_up(server)


def http(client: socket.socket) -> None:
    """A web server: it answers the first line, whatever it is."""
    word = client.recv(4096)
    status = b"200 OK" if word.startswith(b"GET ") else b"400 Bad Request"
    client.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def ssh(client: socket.socket) -> None:
    """A server that speaks first, and waits: where it closes, a client may see that before it reads the line."""
    client.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
    silent(client)


def closing(client: socket.socket) -> None:
    """A proxy without a broker behind it."""


def silent(client: socket.socket) -> None:
    """A process that hangs: it reads, and never answers."""
    while client.recv(4096):
        pass


@contextmanager
def full_backlog() -> Iterator[int]:
    """The port of a listener that accepts nothing: its queue is full, and further attempts get no answer."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        waiting = []
        try:
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
                waiting.append(client)
            yield port
        finally:
            for client in waiting:
                client.close()
