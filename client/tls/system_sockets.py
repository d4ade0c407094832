"""TLS on sockets of the system, for a library that connects on its own thread: kazoo's connection to ZooKeeper."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from typing import Any

from sordini.client.tls.contexts import reason_of


def secured(connection: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """Complete the handshake on a connected socket, within the socket's timeout; `host` is the server's name.

    The socket is closed when it fails. Raises OSError, and of it ssl.SSLError.
    """
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except (OSError, ValueError):
        connection.close()
        raise


def with_decrypted_bytes(sockets: Iterable[Any]) -> list[Any]:
    """The TLS sockets that can be read although nothing is left for them in the system."""
    return [one for one in sockets if isinstance(one, ssl.SSLSocket) and one.pending()]


def failure_text(error: BaseException) -> str:
    """Why a connection failed."""
    return reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
