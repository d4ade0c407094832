"""Real sockets for asyncio connections: where a client that is no broker connects to one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from sordini.client.addresses import Address
from sordini.client.ports import Socket
from sordini.client.tls.contexts import reason_of
from sordini.client.tls.tls_socket import TlsSocket

_AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]


class StreamSocket:
    """A connected, non-blocking TCP socket (the port `Socket` of async_connection.py)."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        try:
            return self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, data: memoryview) -> int | None:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return None

    def close(self) -> None:
        self._socket.close()


async def connect(address: Address) -> StreamSocket:
    """Connect to the first of the host's addresses that accepts; the caller bounds the time.

    Raises OSError, of the first address if there are several, and UnicodeError for a host that is no host name.
    """
    failure: OSError | None = None
    for family, kind, protocol, _, where in await _resolve(address):
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(opened, where)
        except OSError as error:
            opened.close()
            failure = failure or error
        except BaseException:  # Raised again - cancelled: the socket is given back.
            opened.close()
            raise
        else:
            return StreamSocket(opened)
    assert failure is not None, "getaddrinfo finds an address or raises"
    raise failure


async def connect_with(context: ssl.SSLContext | None, address: Address) -> Socket:
    """As `connect`, and with TLS if there is a context. Raises OSError and UnicodeError."""
    connected = await connect(address)
    return connected if context is None else await start_tls(connected, context, address.host)


async def _resolve(address: Address) -> Sequence[_AddressInfo]:
    found: Sequence[_AddressInfo]
    try:
        # A numeric address needs no thread.
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(*address, type=socket.SOCK_STREAM)
    return found


async def start_tls(connected: Socket, context: ssl.SSLContext, host: str) -> Socket:
    """The TLS handshake on a connected socket, which is closed when it fails; the caller bounds the time.

    Raises OSError, whose text is OpenSSL's reason.
    """
    secured = TlsSocket(connected, context, host=host)
    try:
        while not secured.advance():
            secured.flush()  # Some KiB, with nothing before them.
            await _readable(secured)
            if secured.receive_handshake() == b"":
                raise OSError("the TLS handshake was broken off: is this a TLS listener?")
        secured.flush()
    except ssl.SSLError as error:
        with contextlib.suppress(OSError):
            secured.flush()  # The alert.
        secured.close()
        raise OSError(f"TLS: {reason_of(error)}") from None
    except BaseException:  # Raised again - cancelled: the socket is given back.
        secured.close()
        raise
    return secured


async def _readable(connected: Socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(connected, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(connected)
