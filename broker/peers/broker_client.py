"""Links to other brokers over the network port, as `Links` and `BrokerLink` in replication/ports.py promise them.

A link looks the address up each time that it connects, since a broker may come back somewhere else. All that can go
wrong between two brokers ends as Unreachable.

A listener that needs TLS or a login wraps the socket where `_connect` gets it; what is above sees only the socket port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sordini.broker.network.ports import Network, SocketOptions
from sordini.client.async_connection import Connection
from sordini.protocol import schema
from sordini.protocol.api import APIS, Api
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_response_header
from sordini.protocol.types import BrokerId
from sordini.replication.ports import Unreachable

Addresses = Callable[[BrokerId], tuple[str, int] | None]
"""Where a broker listens for others; None while that is not known."""

_API_OF: Final[dict[type, Api]] = {api.request: api for api in APIS.values()}


class BrokerClientLimits(NamedTuple):
    """What every link keeps to."""

    connect_timeout_ms: int = 10_000
    """`socket.connection.setup.timeout.ms`."""
    response_bytes_max: int = 104_857_600
    """A longer response closes the connection; as `socket.request.max.bytes` for requests. A response to Fetch may be
    longer than `replica.fetch.response.max.bytes`, by a first batch that is."""
    options: SocketOptions = SocketOptions()


class BrokerClients:
    """Links to the brokers that `addresses` knows."""

    def __init__(
        self, network: Network, addresses: Addresses, limits: BrokerClientLimits = BrokerClientLimits()
    ) -> None:
        self._network = network
        self._addresses = addresses
        self._limits = limits

    def link(self, broker_id: BrokerId, client_id: str) -> BrokerClient:
        """A link of the caller's own, who closes it; it connects when it is used."""
        return BrokerClient(self._network, self._addresses, self._limits, broker_id, client_id)


class BrokerClient:
    """One caller's way to one broker: one request after another."""

    def __init__(
        self, network: Network, addresses: Addresses, limits: BrokerClientLimits, broker_id: BrokerId, client_id: str
    ) -> None:
        self._network = network
        self._addresses = addresses
        self._limits = limits
        self._broker_id = broker_id
        self._client_id = client_id
        self._connection: Connection | None = None
        self._connecting: asyncio.Timeout | None = None

    async def ask(self, request: Any, version: int, timeout_ms: int) -> Any:
        """Send a request; its response message. `timeout_ms` is for the answer, on an open connection.

        Raises Unreachable. Records in the response are views of the buffer that it was received into.
        """
        api = _API_OF[type(request)]
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = self._connection = await self._connect()
        try:
            frame = await connection.ask(api, version, self._client_id, request, timeout_ms)
            _, position = read_response_header(api, version, frame)
            return schema.decoder(api.response, version)(frame, position)[0]
        except WireError as error:
            connection.close()
            raise Unreachable(f"broker {self._broker_id} sent an answer that cannot be read: {error}") from None
        except BaseException:  # Raised again - cancelled half-way: the answer that still comes is nobody's.
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection, or stop connecting; a call under way raises Unreachable."""
        if self._connecting is not None:
            self._connecting.reschedule(0)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> Connection:
        address = self._addresses(self._broker_id)
        if address is None:
            raise Unreachable(f"broker {self._broker_id}: nobody knows where it is")
        peer = f"broker {self._broker_id} at {address[0]}:{address[1]}"
        limits = self._limits
        assert self._connecting is None, "a request is under way already"
        try:
            async with asyncio.timeout(None) as self._connecting:  # Ended by `close`; the port keeps the time.
                socket = await self._network.connect(address, limits.options, limits.connect_timeout_ms)
        except OSError as error:
            raise Unreachable(f"{peer}: {error.strerror or str(error) or 'no answer in time'}") from None
        finally:
            self._connecting = None
        return Connection(socket, peer, limits.response_bytes_max)
