"""The network port on the kernel's sockets: the only code of the broker that opens one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Sequence
from typing import Final

from sordini.broker.network.ports import Buffer, ListeningSocket, SliceError, Socket, SocketOptions
from sordini.storage.disk import File
from sordini.system.resolver import HostResolver, SocketAddress
from sordini.system.sockets import MORE, NO_SIGNAL, SENDS_FILES, liveness_options, send_file, unacknowledged_bytes

_RESET_ON_CLOSE: Final[bytes] = struct.pack("ii", 1, 0)  # SO_LINGER: on, zero seconds.

# Errors of sendfile(2) about the file, and about this file and this socket together.
_FILE_ERRORS: Final = frozenset({errno.EIO, errno.EBADF, errno.EOVERFLOW, errno.EISDIR, errno.ESPIPE, errno.ESTALE})
_NO_SENDFILE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK})
_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_COPIED_BYTES_MAX: Final = 64 * 1024
_ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - a listener without a host binds every address.


class SystemSocket:
    """A connected TCP socket of the kernel."""

    __slots__ = ("__weakref__", "_descriptor", "_socket", "_use_sendfile", "local_address", "peer_address")

    def __init__(self, connected: socket.socket, peer: tuple[str, int], *, use_sendfile: bool) -> None:
        self._socket = connected
        self._descriptor = connected.fileno()
        self._use_sendfile = use_sendfile
        self.peer_address = peer
        self.local_address = _host_and_port(connected.getsockname())

    def fileno(self) -> int:
        return self._descriptor

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        try:
            return self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, data: Buffer, *, more: bool = False) -> int | None:
        try:
            return self._socket.send(data, MORE | NO_SIGNAL if more else NO_SIGNAL)
        except (BlockingIOError, InterruptedError):
            return None

    def send_many(self, buffers: Sequence[Buffer], *, more: bool = False) -> int | None:
        try:
            return self._socket.sendmsg(buffers, (), MORE | NO_SIGNAL if more else NO_SIGNAL)
        except (BlockingIOError, InterruptedError):
            return None

    def sendfile(self, file: File, position: int, size: int) -> int | None:
        if not self._use_sendfile:
            return self._send_copy(file, position, size)
        try:
            source = file.fileno()
        except OSError as error:
            raise SliceError(str(error)) from error
        try:
            return send_file(self._descriptor, source, position, size)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            if error.errno in _NO_SENDFILE:
                self._use_sendfile = False
                return self._send_copy(file, position, size)
            if error.errno in _FILE_ERRORS:
                raise SliceError(str(error)) from error
            raise

    def unsent(self) -> int:
        return unacknowledged_bytes(self._descriptor)

    def close(self, *, reset: bool = False) -> None:
        if reset:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._socket.close()

    def _send_copy(self, file: File, position: int, size: int) -> int | None:
        """For platforms and file systems without sendfile: bytes that do not fit are read again later."""
        try:
            data = file.read_at(position, min(size, _COPIED_BYTES_MAX))
        except OSError as error:
            raise SliceError(str(error)) from error
        return self.send(data, more=len(data) < size) if data else 0


class SystemListeningSocket:
    """A listening TCP socket of the kernel."""

    __slots__ = ("_options", "_socket", "_use_sendfile", "address")

    def __init__(self, listening: socket.socket, options: SocketOptions, *, use_sendfile: bool) -> None:
        self._socket = listening
        self._options = options
        self._use_sendfile = use_sendfile
        self.address = _host_and_port(listening.getsockname())

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Socket | None:
        try:
            connected, address = self._socket.accept()
        except (BlockingIOError, InterruptedError):
            return None
        try:
            connected.setblocking(False)
            _set_options(connected, self._options)
            peer = _host_and_port(address)
            return SystemSocket(connected, peer, use_sendfile=self._use_sendfile)
        except OSError:
            connected.close()
            raise

    def close(self) -> None:
        self._socket.close()


class SystemNetwork:
    """The kernel's network. `use_sendfile=False` forces the path of platforms without it."""

    def __init__(self, *, use_sendfile: bool = True) -> None:
        self._use_sendfile = use_sendfile and SENDS_FILES
        self._resolver = HostResolver()

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        listening: list[ListeningSocket] = []
        refused: OSError | None = None
        try:
            for family, address in _addresses(host, port):
                if address == _ANY_IPV4 and listening:
                    continue  # The IPv6 socket listens for both.
                # All addresses of a name share the port that the system chose for the first.
                bound_port = port or (listening[0].address[1] if listening else 0)
                try:
                    opened = _open_listening(family, (address, bound_port), options)
                except OSError as error:
                    if error.errno not in _NO_SUCH_ADDRESS:
                        raise
                    refused = error  # Host names often have an IPv6 address where IPv6 is switched off.
                    continue
                listening.append(SystemListeningSocket(opened, options, use_sendfile=self._use_sendfile))
            if not listening and refused is not None:
                raise refused
        except OSError:
            for opened_before in listening:
                opened_before.close()
            raise
        return listening

    async def connect(self, address: tuple[str, int], options: SocketOptions, timeout_ms: int) -> Socket:
        async with asyncio.timeout(timeout_ms / 1000):
            found = await self._resolver.resolve(*address)
            refused = OSError(errno.EADDRNOTAVAIL, f"{address[0]} has no address")
            for family, where in found:
                try:
                    # Each address gets its share of the time.
                    async with asyncio.timeout(timeout_ms / 1000 / len(found)):
                        return await self._connected(family, where, options)
                except OSError as error:
                    refused = error
            raise refused

    async def _connected(self, family: socket.AddressFamily, where: SocketAddress, options: SocketOptions) -> Socket:
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            _set_options(opened, options)
            failure = opened.connect_ex(where)
            if failure == errno.EINPROGRESS:
                await _writable(opened)
                failure = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            # Without a listener, an ephemeral port can get connected to itself.
            if not failure and opened.getsockname() == opened.getpeername():
                failure = errno.ECONNREFUSED
            if failure:
                raise OSError(failure, os.strerror(failure))
            return SystemSocket(opened, _host_and_port(where), use_sendfile=self._use_sendfile)
        except BaseException:  # Raised again - closed on cancellation, too.
            opened.close()
            raise


async def _writable(opened: socket.socket) -> None:
    """Wait until the kernel has finished a connection attempt."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    loop.add_writer(opened, lambda: None if finished.done() else finished.set_result(None))
    try:
        await finished
    finally:
        loop.remove_writer(opened)


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses to bind for a listener's host name, without repetitions."""
    if not host:
        any_ipv6 = [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else []
        return [*any_ipv6, (socket.AF_INET, _ANY_IPV4)]
    try:
        found = socket.getaddrinfo(_looked_up(host.strip("[]")), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:  # The latter of the codec for host names.
        reason = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise OSError(errno.EADDRNOTAVAIL, f"the host {host!r} does not resolve here: {reason}") from error
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _looked_up(name: str) -> str | bytes:
    """An IPv4 address as bytes: of those Python does not import its codec for host names, 3 ms of a start."""
    return name.encode() if name.isascii() and name.replace(".", "").isdigit() else name


def _open_listening(family: socket.AddressFamily, address: tuple[str, int], options: SocketOptions) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            only_v6 = 0 if address[0] == "::" else 1
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_v6)
        # The receive buffer's size must be set before `listen`, or the window cannot scale up to it.
        _set_options(listening, options)
        listening.bind(address)
        listening.listen(options.backlog)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {address[0]} port {address[1]}: {error.strerror}") from error
    return listening


def _set_options(opened: socket.socket, options: SocketOptions) -> None:
    """Options against half-open connections and delayed small packets. Those that a platform lacks are skipped."""
    # A response is given to the kernel whole: waiting for more bytes would only delay its last packet.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in liveness_options(
        options.keepalive_idle_s, options.keepalive_interval_s, options.keepalive_probes, options.user_timeout_ms
    ):
        opened.setsockopt(socket.IPPROTO_TCP, option, value)
    if options.send_buffer_bytes != -1:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes != -1:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)


def _host_and_port(address: SocketAddress) -> tuple[str, int]:
    """Host and port of a socket address; an IPv4-mapped IPv6 address is written as IPv4."""
    return address[0].removeprefix("::ffff:"), address[1]
