"""Requests to one address without an event loop; it is connected at the first one, and again after a failure."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any, Final

from sordini.client.addresses import Address
from sordini.client.blocking import BlockingConnection, SocketTransport, open_socket
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import ClientError
from sordini.client.versions import ServedVersions, negotiate

RESPONSE_BYTES_MAX: Final = 1 << 30


class BlockingLink:
    """One plaintext connection; threads may share it, one request at a time. Nothing is repeated here."""

    def __init__(self, address: Address, client_id: str, timeout_s: float) -> None:
        """`timeout_s` is for connecting, for sending a request, and for receiving a response."""
        self.address = address
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._open: tuple[BlockingConnection, ServedVersions] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection on which no request has failed."""
        return self._open is not None

    def ask(
        self, request: Any, *, at_least: int = 0, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """The response to a request in the newest version that both sides know, within the bounds.

        `timeout_s` is for this response, None: as for all. Records in it are views of memory of its own. Raises
        OSError, ClientError; the connection is closed then.
        """
        with self._lock:
            try:
                connection, served = self._connected()
                version = served.highest(API_OF[type(request)], at_least=at_least, at_most=at_most)
                connection.send(request, version)
                return connection.receive(timeout_s)
            except (OSError, ClientError):
                self._close()
                raise

    def close(self) -> None:
        """Close the connection; another request would open a new one."""
        with self._lock:
            self._close()

    def _connected(self) -> tuple[BlockingConnection, ServedVersions]:
        if self._open is None:
            transport = SocketTransport(open_socket(self.address, self._timeout_s))
            protocol = ClientConnection(self._client_id, RESPONSE_BYTES_MAX)
            connection = BlockingConnection(transport, protocol, time.monotonic, self._timeout_s)
            try:
                self._open = connection, connection.run(negotiate())
            except (OSError, ClientError):
                connection.close()
                raise
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open[0].close()
            self._open = None
