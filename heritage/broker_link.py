"""One connection to one broker on the project's client: made at the first request, and again after a failure."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any, Final

from sordini.client.addresses import Address
from sordini.client.blocking import BlockingConnection, SocketTransport, open_socket
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import ClientError
from sordini.client.versions import ServedVersions, negotiate
from sordini.heritage.errors import BrokerUnavailable

RESPONSE_BYTES_MAX: Final = 1 << 30


class BrokerLink:
    """Requests to the broker at an address, one at a time; threads may share it."""

    def __init__(self, address: Address, client_id: str, timeout_ms: int) -> None:
        self.address = address
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._lock = Lock()
        self._open: tuple[BlockingConnection, ServedVersions] | None = None

    def ask(
        self, request: Any, *, at_least: int = 0, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """The response to a request in the newest version that both sides know, within the bounds.

        Records in it are views of memory of its own. Raises BrokerUnavailable.
        """
        with self._lock:
            try:
                connection, served = self._connected()
                version = served.highest(API_OF[type(request)], at_least=at_least, at_most=at_most)
                connection.send(request, version)
                return connection.receive(timeout_s)
            except (OSError, ClientError) as error:
                self._close()
                raise BrokerUnavailable(f"broker at {self.address}: {error}") from None

    def close(self) -> None:
        """Close the connection; the next request opens another."""
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
