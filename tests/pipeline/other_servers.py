"""Listeners that are no brokers, or stand before one: each connection is served by a function in a thread of its own."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.pipeline.certificates import Certificates

SECONDS_MAX = 60


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a listener that hands every connection to `serve` and closes it afterwards."""
    threads: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):  # The listener is closed when the block ends.
            while True:
                connection, _ = server.accept()
                connection.settimeout(SECONDS_MAX)
                thread = threading.Thread(target=run, args=(connection,), daemon=True)
                threads.append(thread)
                thread.start()

    def run(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    for thread in (accepting, *threads):
        thread.join(SECONDS_MAX)


@contextmanager
def tls_before(port: int, certificates: Certificates) -> Iterator[int]:
    """The port of a listener that takes TLS and passes what is inside on to a broker's plain port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_store)

    def serve(connection: socket.socket) -> None:
        broker = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        with broker, context.wrap_socket(connection, server_side=True) as inside:
            answering = threading.Thread(target=carry, args=(broker, inside), daemon=True)
            answering.start()
            carry(inside, broker)
            answering.join(SECONDS_MAX)

    with listener(serve) as found:
        yield found


def carry(one: socket.socket, other: socket.socket) -> None:
    """Forward one side to the other until its end, and then the end."""
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_RDWR)
