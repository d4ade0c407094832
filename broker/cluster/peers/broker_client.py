"""Connections to other brokers over the network port: the ports `BrokerLinks` and `BrokerLink` of replication.

A client looks the broker's address up each time that it connects, since a broker may be restarted at another address.
Every failure between two brokers is raised as Unreachable.

Where the listener between brokers asks for a login, a new connection logs in before its first request. TLS is below the
socket port.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from sordini.broker.network.ports import Network, SocketOptions
from sordini.client.async_connection import AsyncConnection
from sordini.client.authentication import SaslCredentials
from sordini.client.cluster_core import open_session
from sordini.client.connection import ClientConnection
from sordini.client.errors import ClientError
from sordini.client.ports import Rounds
from sordini.protocol.types import BrokerId
from sordini.replication.ports import Clock, Unreachable
from sordini.system.named_tuple import NamedTuple

Addresses = Callable[[BrokerId], tuple[str, int] | None]
"""Where a broker's inter-broker listener is; None while that is not known."""


class OwnLogin(NamedTuple):
    """How this broker logs in to others."""

    credentials: SaslCredentials
    clock: Clock


class BrokerClientLimits(NamedTuple):
    """What applies to every connection to another broker."""

    connect_timeout_ms: int = 10_000
    """`socket.connection.setup.timeout.ms`."""
    response_bytes_max: int = 104_857_600
    """A longer response closes the connection; as `socket.request.max.bytes` for requests. A response to Fetch may be
    longer than `replica.fetch.response.max.bytes`, by a first batch that is."""
    options: SocketOptions = SocketOptions()


class BrokerClients:
    """Makes clients of the brokers that `addresses` knows."""

    def __init__(
        self,
        network: Network,
        addresses: Addresses,
        limits: BrokerClientLimits = BrokerClientLimits(),  # noqa: B008
        login: OwnLogin | None = None,
    ) -> None:
        """`login`: where the listener between brokers asks for one."""
        self._login = login
        self._network = network
        self._addresses = addresses
        self._limits = limits

    def link(self, broker_id: BrokerId, client_id: str) -> BrokerClient:
        """A client that the caller alone uses, and closes; it connects when it is used."""
        return BrokerClient(self._network, self._addresses, self._limits, broker_id, client_id, login=self._login)


class BrokerClient:
    """One caller's requests to one broker, one at a time; it connects again after a failure."""

    def __init__(
        self,
        network: Network,
        addresses: Addresses,
        limits: BrokerClientLimits,
        broker_id: BrokerId,
        client_id: str,
        *,
        login: OwnLogin | None = None,
    ) -> None:
        self._login = login
        self._session_ends_ms = float("inf")
        """On the monotonic clock: a session is not used for longer than most of its lifetime (KIP-368)."""
        self._network = network
        self._addresses = addresses
        self._limits = limits
        self._broker_id = broker_id
        self._client_id = client_id
        self._connection: AsyncConnection | None = None
        self._connecting: asyncio.Timeout | None = None

    async def ask(self, request: Any, version: int, timeout_ms: int, rounds: Rounds | None = None) -> Any:
        """Send a request; its response message. `timeout_ms` is for the response, on an open connection.

        With `rounds`, the response that they end with: see `AsyncConnection.send_rounds`. Raises Unreachable. Records
        in the response are views of the buffer that it was received into.
        """
        connection = self._connection
        login = self._login
        if connection is not None and login is not None and self._session_ends_ms <= login.clock.monotonic_ms():
            connection.close()
        if connection is None or not connection.is_open:
            connection = self._connection = await self._connect()
        try:
            if rounds is not None:
                return await connection.send_rounds(request, version, timeout_ms, rounds)
            return await connection.send(request, version, timeout_ms)
        except BaseException:  # Raised again - cancelled: the response that still arrives belongs to no request.
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection, or stop connecting; a call in flight raises Unreachable."""
        if self._connecting is not None:
            self._connecting.reschedule(0)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> AsyncConnection:
        address = self._addresses(self._broker_id)
        if address is None:
            raise Unreachable(f"broker {self._broker_id}: its address is not known")
        peer = f"broker {self._broker_id} at {address[0]}:{address[1]}"
        limits = self._limits
        assert self._connecting is None, "a request is in flight already"
        try:
            async with asyncio.timeout(None) as self._connecting:  # Ended by `close`; the port keeps the time.
                socket = await self._network.connect(address, limits.options, limits.connect_timeout_ms)
        except OSError as error:
            raise Unreachable(f"{peer}: {error.strerror or str(error) or 'no answer in time'}") from None
        finally:
            self._connecting = None
        connection = AsyncConnection(socket, ClientConnection(self._client_id, limits.response_bytes_max, peer))
        if self._login is not None:
            await self._log_in(connection, self._login, peer)
        return connection

    async def _log_in(self, connection: AsyncConnection, login: OwnLogin, peer: str) -> None:
        began_ms = login.clock.monotonic_ms()
        steps = open_session(peer, lambda: login.credentials, secrets.token_hex(16))
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                session = await connection.run(steps)
        except (ClientError, TimeoutError) as error:
            connection.close()
            raise Unreachable(str(error) or f"{peer}: no login in time") from None
        except BaseException:  # Raised again - cancelled: the socket is given back.
            connection.close()
            raise
        self._session_ends_ms = began_ms + session.lifetime_s * 1000
