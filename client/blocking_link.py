"""The blocking shell of a client, one connection at a time: `OpenLink`, and `BlockingLink`, which opens it when needed.

A thread that waits for a response holds its link, so a program with several has a link for each (`link_pool`), or one
that they use in turn (`BlockingLink`). How the parts fit together is in `cluster_core`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Self

from sordini.client.addresses import Address
from sordini.client.blocking import BlockingConnection, SocketTransport, open_socket
from sordini.client.cluster_core import FIRST_RESPONSES_BYTES_MAX, Access, open_session
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import ClientError
from sordini.client.ports import Transport
from sordini.client.versions import ServedVersions
from sordini.system.named_tuple import NamedTuple

RESPONSE_BYTES_MAX: Final = 1 << 30
NONCE_BYTES: Final = 24


class BlockingPorts(NamedTuple):
    """The ports through which a blocking client reaches the network and the clock."""

    connect: Callable[[Address], Transport]
    """Raises ClientError."""
    monotonic: Callable[[], float]
    """Seconds."""
    sleep: Callable[[float], None]
    """Seconds."""


class OpenLink:
    """An open connection to one broker: versions are negotiated, and the client is logged in. One thread uses it.

    A request may be sent before its response is read (`send`, then `receive`). After an error it is closed: where the
    next response would begin is not known. All methods raise ClientError.
    """

    def __init__(self, address: Address, access: Access, ports: BlockingPorts) -> None:
        """`access.answer_s` is for sending a request, and for receiving a response."""
        assert access.answer_s is not None, "a thread does not wait for ever"
        self.address = address
        self.answered = 0
        """The number of responses since the client is logged in."""
        self._monotonic = ports.monotonic
        self._protocol = ClientConnection(access.client_id, FIRST_RESPONSES_BYTES_MAX, str(address))
        transport = ports.connect(address)
        self._connection = BlockingConnection(transport, self._protocol, ports.monotonic, access.answer_s)
        self._expires_s = float("inf")
        self._versions = ServedVersions({})

    @classmethod
    def open(cls, address: Address, access: Access, ports: BlockingPorts) -> Self:
        """Connect, negotiate and log in."""
        link = cls(address, access, ports)
        try:
            session = link._connection.run(open_session(str(address), access.login, os.urandom(NONCE_BYTES).hex()))
        except ClientError as error:
            link.close()
            raise access.explain(address, error) from None
        except BaseException:  # Raised again - a connection that is not ready is closed.
            link.close()
            raise
        link._versions = session.versions
        link._expires_s = ports.monotonic() + session.lifetime_s
        link._protocol.response_bytes_max = access.response_bytes_max
        return link

    @property
    def is_open(self) -> bool:
        """Whether no request has failed on it, and it was not closed."""
        return self._connection.is_open

    @property
    def in_flight(self) -> int:
        """How many requests have no response yet."""
        return self._connection.in_flight

    @property
    def is_fresh(self) -> bool:
        """Whether the login is valid for another request."""
        return self._monotonic() < self._expires_s

    def ask(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Any:
        """Send a request in the newest version that both sides know, within the bounds; the response message."""
        self.send(request, at_least=at_least, at_most=at_most)
        return self.receive()

    def send(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> None:
        """Send a request and do not wait."""
        version = self._versions.highest(API_OF[type(request)], at_least=at_least, at_most=at_most)
        self._connection.send(request, version)

    def receive(self, timeout_s: float | None = None) -> Any:
        """Wait for the response to the oldest request without one; records in it are views of memory of its own.

        `timeout_s` is for this response, None: as for all.
        """
        response = self._connection.receive(timeout_s)
        self.answered += 1
        return response

    def close(self) -> None:
        """Close; may be called again."""
        self._connection.close()


class BlockingLink:
    """Requests to one plaintext address: connected at the first one, and again after a failure.

    Threads may share it, one request at a time. Nothing is repeated here.
    """

    def __init__(self, address: Address, client_id: str, timeout_s: float) -> None:
        """`timeout_s` is for connecting, for sending a request, and for receiving a response."""
        self.address = address
        self._access = Access(
            (address,), client_id, connect_s=timeout_s, answer_s=timeout_s, response_bytes_max=RESPONSE_BYTES_MAX
        )
        self._ports = BlockingPorts(lambda to: SocketTransport(open_socket(to, timeout_s)), time.monotonic, time.sleep)
        self._lock = Lock()
        self._link: OpenLink | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection on which no request has failed."""
        return self._link is not None

    def ask(
        self, request: Any, *, at_least: int = 0, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """The response to a request in the newest version that both sides know, within the bounds.

        `timeout_s` is for this response, None: as for all. Records in it are views of memory of its own. Raises
        ClientError; the connection is closed then.
        """
        with self._lock:
            try:
                link = self._link = self._link or OpenLink.open(self.address, self._access, self._ports)
                link.send(request, at_least=at_least, at_most=at_most)
                return link.receive(timeout_s)
            except ClientError:
                self._close()
                raise

    def close(self) -> None:
        """Close the connection; another request would open a new one."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
