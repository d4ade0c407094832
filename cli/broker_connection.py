"""One connection from the command line to one broker, on the client of `sordini.client`.

    connection = await BrokerConnection.open(Address("127.0.0.1", 9092))  # connects and negotiates versions
    response = await connection.ask(MetadataRequest(topics=None))         # in the newest version both sides know

aiokafka's admin client lacks too many of the requests that the commands need, hence this. One request is in flight at a
time; nothing is retried here (see `cluster_client`).
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, Self

from sordini.cli.common.client_security import connect_securely, current_security
from sordini.cli.common.options import Failure
from sordini.client.addresses import Address
from sordini.client.async_connection import AsyncConnection
from sordini.client.authentication import authenticate
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidResponse,
    UnsupportedVersion,
    reason_of_loss,
)
from sordini.client.versions import ServedVersions, negotiate
from sordini.protocol.api import Api
from sordini.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sordini.client.ports import Socket

    Connect = Callable[[Address], Awaitable[Socket]]

CLIENT_ID: Final = "sordini-cli"
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A length beyond this is no response of a broker but the first bytes of another protocol."""
CONNECT_SECONDS_MAX: Final = 10.0
NONCE_BYTES: Final = 24


class Unreachable(Failure):
    """There is no broker at an address."""


class Disconnected(Failure):
    """The connection ended before the response arrived: whether the request was carried out is not known."""


class NotServed(Failure):
    """The broker does not know this kind of request, or no version of it that we know."""


class Refused(Failure):
    """The cluster answered with an error."""

    def __init__(self, subject: str, code: int, reason: str | None = None) -> None:
        self.code = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        name = self.code.name if self.code == code else f"error {code}"
        super().__init__(f"{subject}: {reason} ({name})" if reason else f"{subject}: {_plain(name)}")


class BrokerConnection:
    """An open connection whose versions are negotiated."""

    def __init__(self, address: Address, connection: AsyncConnection, versions: ServedVersions) -> None:
        self.address = address
        self._connection = connection
        self._versions = versions
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls, address: Address, connect: Connect = connect_securely) -> Self:
        """Connect, negotiate, and log in. Raises Unreachable, and Failure for a refused login.

        Tests bring a `connect` of their own.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                socket = await connect(address)
        except TimeoutError:
            raise Unreachable(f"cannot reach {address}: no answer within {CONNECT_SECONDS_MAX:g} s") from None
        except OSError as error:
            raise Unreachable(f"cannot reach {address}: {_reason(error)}") from None
        except UnicodeError:  # Of the codec for host names: an empty or a long label, or bytes that are no text.
            raise Unreachable(f"cannot reach {address}: {address.host!a} is no host name") from None
        connection = AsyncConnection(socket, ClientConnection(CLIENT_ID, RESPONSE_BYTES_MAX))
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                versions = await connection.run(negotiate())
                await _log_in(connection, versions, address)
        except (ConnectionLost, InvalidResponse, TimeoutError) as error:
            connection.close()
            raise Unreachable(f"{address} accepts connections and {_no_broker(error)}") from None
        except AuthenticationFailed as error:
            connection.close()
            raise Failure(str(error)) from None
        except UnsupportedVersion as error:
            connection.close()
            raise NotServed(f"the broker at {address} does not serve {error.api_name} requests") from None
        except BaseException:  # Raised again - closed when the command is cancelled, too.
            connection.close()
            raise
        return cls(address, connection, versions)

    async def ask(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Any:
        """Send a request in the newest version both sides know, within the bounds; the response message.

        Raises NotServed, Disconnected, and Failure for a response that cannot be read.
        """
        version = self.version(API_OF[type(request)], at_most, at_least=at_least)
        async with self._lock:
            try:
                return await self._connection.send(request, version)
            except ConnectionLost:
                raise Disconnected(f"{self.address} closed the connection before it answered") from None
            except InvalidResponse as error:
                raise Failure(f"{self.address} sent {error}") from None
            except BaseException:  # Raised again - cancelled: the response that still arrives belongs to no request.
                self.close()
                raise

    def version(self, api: Api, at_most: int | None = None, *, at_least: int = 0) -> int:
        """The version in which a kind of request is sent here; raises NotServed."""
        try:
            return self._versions.highest(api, at_least=at_least, at_most=at_most)
        except UnsupportedVersion as error:
            raise NotServed(f"the broker at {self.address} does not serve {error.api_name} requests") from None

    def close(self) -> None:
        """Close without waiting."""
        self._connection.close()


async def _log_in(connection: AsyncConnection, versions: ServedVersions, address: Address) -> None:
    """Log in where --command-config says so. Raises AuthenticationFailed, too, for a token that cannot be read."""
    sasl = current_security().sasl
    if sasl is None:
        return
    try:
        credentials = sasl()
    except (OSError, ValueError) as error:
        raise AuthenticationFailed(f"no token to log in with: {error}") from None
    await connection.run(authenticate(credentials, versions, str(address), os.urandom(NONCE_BYTES).hex()))


def _reason(error: OSError) -> str:
    """What the system says, without numbers."""
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused"
    return reason_of_loss(error)


def _no_broker(error: Exception) -> str:
    """Why what answers is no broker as this command connects to it."""
    if "ssl" in str(error):  # An alert: of TLS 1.3 a client learns after its handshake that its certificate is refused.
        return f"ends TLS: {error}"
    protocol = current_security().protocol
    words = "plaintext" if protocol == "PLAINTEXT" else protocol
    return f"does not answer as a broker does: is this a {words} Kafka listener?"


def _plain(name: str) -> str:
    """`TOPIC_ALREADY_EXISTS` as people say it, with the name to search for."""
    return f"{name.replace('_', ' ').lower()} ({name})"
