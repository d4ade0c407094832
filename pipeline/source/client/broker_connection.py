"""One connection to one broker, on the blocking client of `sordini.client`: versions negotiated, authenticated.

A connection on which a request failed is closed: where the next response would begin is not known.

A request may be sent before its response is read (`send`, then `receive`): so a fetch is in flight while the records of
the one before are decoded. Nothing is retried here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

from sordini.client.addresses import Address
from sordini.client.authentication import authenticate
from sordini.client.blocking import BlockingConnection
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidLength,
    InvalidResponse,
    UnsupportedVersion,
)
from sordini.client.ports import Transport
from sordini.client.versions import ServedVersions, negotiate
from sordini.pipeline.errors import NotServed, Unauthorized, Unreachable
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.transport import ClientPorts, Lost, lost

T = TypeVar("T")

RESPONSE_BYTES_MAX: Final = 512 * 1024 * 1024
"""A length beyond this is no response of a broker but the first bytes of another protocol."""

_FIRST_RESPONSES_BYTES_MAX: Final = 1024 * 1024
"""The same for the first responses, which are short: the first bytes of some protocols are a length below the other."""

_LIFETIME_USED: Final = 0.8
"""The part of a session's lifetime after which a new connection is made (KIP-368)."""
_OTHER_PROTOCOLS: Final = {b"HTTP": "HTTP", b"SSH-": "SSH", b"\x15\x03": "TLS"}


class BrokerConnection:
    """An open connection; raises Lost, Unreachable, Unauthorized and NotServed."""

    def __init__(self, transport: Transport, address: Address, settings: ClientSettings, ports: ClientPorts) -> None:
        self.address = address
        self.answered = 0
        """The number of responses since the connection was authenticated."""
        self._seconds_max = settings.limits.request_ms / 1000
        self._monotonic = ports.monotonic
        self._protocol = ClientConnection(settings.client_id, _FIRST_RESPONSES_BYTES_MAX)
        self._connection = BlockingConnection(transport, self._protocol, ports.monotonic, self._seconds_max)
        self._expires_at: float | None = None
        self._versions = ServedVersions({})

    @classmethod
    def open(cls, address: Address, settings: ClientSettings, ports: ClientPorts) -> Self:
        """Connect, negotiate versions, and authenticate."""
        link = cls(ports.connect(address, settings), address, settings, ports)
        try:
            link._start(settings)
        except BaseException:  # Raised again - a connection that is not ready is closed.
            link.close()
            raise
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
        """Whether the authentication is valid for another request."""
        return self._expires_at is None or self._monotonic() < self._expires_at

    def ask(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Any:
        """Send a request in the newest version that both sides know, within the bounds; the response message."""
        self.send(request, at_least=at_least, at_most=at_most)
        return self.receive()

    def send(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> None:
        """Send a request and do not wait."""

        def send() -> None:
            version = self._versions.highest(API_OF[type(request)], at_least=at_least, at_most=at_most)
            self._connection.send(request, version)

        self._translated(send)

    def receive(self) -> Any:
        """Wait for the response to the oldest request without one; records in it are views of memory of its own."""
        response = self._translated(self._connection.receive)
        self.answered += 1
        return response

    def close(self) -> None:
        """Close; may be called again."""
        self._connection.close()

    def _start(self, settings: ClientSettings) -> None:
        try:
            self._versions = self._translated(lambda: self._connection.run(negotiate()))
        except Lost as error:
            # A listener for something else often just closes the connection.
            raise Lost(f"{error} in reply to ApiVersions: is kafka.security.protocol right?") from None
        credentials = settings.sasl
        if credentials is not None:
            steps = authenticate(credentials, self._versions, str(self.address), secrets.token_urlsafe(24))
            lifetime_ms = self._translated(lambda: self._connection.run(steps))
            if lifetime_ms > 0:
                self._expires_at = self._monotonic() + lifetime_ms / 1000 * _LIFETIME_USED
        self._protocol.response_bytes_max = RESPONSE_BYTES_MAX

    def _translated(self, work: Callable[[], T]) -> T:
        """The result of work on the connection, with errors in the pipeline's terms."""
        try:
            return work()
        except OSError as error:
            raise lost(self.address, error, self._seconds_max) from None
        except ConnectionLost:
            raise Lost(f"{self.address} closed the connection") from None
        except InvalidLength as error:
            raise Unreachable(self._other_protocol(error.first_bytes)) from None
        except InvalidResponse as error:
            raise Lost(f"{self.address} sent {error}") from None
        except AuthenticationFailed as error:
            raise Unauthorized(str(error)) from None
        except UnsupportedVersion as error:
            served = f"knows versions {error.oldest} to {error.newest} of" if error.newest >= 0 else "does not serve"
            text = f"the broker at {self.address} {served} {error.api_name} requests, which is not enough"
            raise NotServed(text) from None

    def _other_protocol(self, first: bytes) -> str:
        name = _OTHER_PROTOCOLS.get(first) or _OTHER_PROTOCOLS.get(first[:2])
        spoken = f"speaks {name}" if name else "does not answer as a broker does"
        advice = "is kafka.security.protocol right?" if name == "TLS" else "is this a Kafka listener?"
        return f"{self.address} {spoken}: {advice}"
