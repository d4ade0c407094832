"""The machine's sockets for one of several brokers in a process: closed when it dies, and cut where a test says so."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Iterable

from sordini.broker.network.ports import ListeningSocket, Socket, SocketOptions
from sordini.broker.network.sockets import SystemNetwork
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.cluster import Address


class Cuts:
    """Which brokers cannot reach each other."""

    def __init__(self) -> None:
        self._pairs: set[frozenset[int]] = set()

    def cut(self, broker: int, others: Iterable[int]) -> None:
        """Neither can reach the other from now on; connections that are open are for `BrokerNetwork.reset`."""
        self._pairs |= {frozenset((broker, other)) for other in others}

    def heal(self, broker: int) -> None:
        """Every other broker can reach it, and is reached by it."""
        self._pairs = {pair for pair in self._pairs if broker not in pair}

    def are_apart(self, broker: int, other: int) -> bool:
        return frozenset((broker, other)) in self._pairs

    def of(self, broker: int) -> tuple[int, ...]:
        """The brokers that it cannot reach."""
        return tuple(sorted(other for pair in self._pairs if broker in pair for other in pair if other != broker))


class BrokerNetwork:
    """The network port of one broker's process."""

    def __init__(self, process: LoopProcess, is_cut: Callable[[Address], bool]) -> None:
        """`is_cut` says of an address whether this broker cannot reach it."""
        self._system = SystemNetwork(use_sendfile=False)
        self._process = process
        self._is_cut = is_cut
        self._listening: list[ListeningSocket] = []
        self._open: weakref.WeakSet[Socket] = weakref.WeakSet()
        process.on_death(self._close_all)

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        """As `Network.listen`."""
        self._process.check_alive()
        opened = self._system.listen(host, port, options)
        self._listening += opened
        return [_Listening(one, self) for one in opened]

    async def connect(self, address: Address, options: SocketOptions, timeout_ms: int) -> Socket:
        """As `Network.connect`. Raises OSError EHOSTUNREACH for an address that is cut off."""
        self._process.check_alive()
        if self._is_cut(address):
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        return self.opened(await self._system.connect(address, options, timeout_ms))

    def opened(self, socket: Socket) -> Socket:
        """Note a connection, to be closed with the process."""
        self._open.add(socket)
        return socket

    def reset(self, is_meant: Callable[[Socket], bool]) -> None:
        """Shut the connections down for which `is_meant` holds: both ends notice at once."""
        for socket in list(self._open):
            try:
                if is_meant(socket):
                    _shut_down(socket)
            except OSError:
                continue  # It was closed before.

    def _close_all(self) -> None:
        for listening in self._listening:
            listening.close()
        for socket in list(self._open):
            socket.close(reset=True)


class _Listening:
    """A listening socket whose connections are noted."""

    def __init__(self, socket: ListeningSocket, network: BrokerNetwork) -> None:
        self._socket = socket
        self._network = network

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def address(self) -> Address:
        return self._socket.address

    def accept(self) -> Socket | None:
        connected = self._socket.accept()
        return None if connected is None else self._network.opened(connected)

    def close(self) -> None:
        self._socket.close()


def _shut_down(socket: Socket) -> None:
    import socket as sockets

    with sockets.socket(fileno=os.dup(socket.fileno())) as again:
        again.shutdown(sockets.SHUT_RDWR)
