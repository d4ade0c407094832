"""Connections to other brokers over TLS: the network port, whose connections have completed their handshake."""

from __future__ import annotations

import asyncio
from typing import Protocol

from sordini.broker.network.ports import ListeningSocket, Network, Socket, SocketOptions
from sordini.broker.network.tls_handshakes import HandshakeFailed, Handshakes
from sordini.broker.network.tls_socket import BrokerTlsSocket


class ClientTls(Protocol):
    """TLS of connections that this broker opens."""

    def connect(self, socket: Socket, host: str) -> BrokerTlsSocket:
        """The client's end of a connection to `host`; the handshake is still to be done."""


class TlsNetwork:
    """Another network port with TLS on the connections that it opens."""

    def __init__(self, network: Network, tls: ClientTls, handshakes: Handshakes) -> None:
        self._network = network
        self._tls = tls
        self._handshakes = handshakes

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        return self._network.listen(host, port, options)

    async def connect(self, address: tuple[str, int], options: SocketOptions, timeout_ms: int) -> Socket:
        """As the port says; a handshake that fails is an OSError as well."""
        async with asyncio.timeout(timeout_ms / 1000):
            secured = self._tls.connect(await self._network.connect(address, options, timeout_ms), address[0])
            try:
                await self._handshakes.complete(secured)
            except HandshakeFailed as failure:
                raise OSError(f"TLS: {failure}") from None
        return secured
