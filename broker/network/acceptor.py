"""Takes connections in at one listener, and decides which stay.

Who waits and who is refused is Apache Kafka's choice: past `max.connections` (of the broker or the listener) nothing
is accepted, so that peers wait in the backlog until somebody leaves; past `max.connections.per.ip` a connection is
accepted and closed at once. Past `NetworkLimits.descriptors_max` nothing is accepted either, on any listener: the
last descriptors are for logs. When the process has none left all the same, accepting pauses for a second: the
listening socket stays readable, and trying again at once would spin.
"""

from __future__ import annotations

import asyncio
import errno
from typing import Final

from sordini.broker.network.limits import ConnectionCounts, Listener
from sordini.broker.network.peer_log_limiter import PeerLines
from sordini.broker.network.ports import ListeningSocket, Peer, Socket
from sordini.broker.network.processor import Rotation

ACCEPTS_MAX: Final = 64
"""Connections taken by one turn; the rest waits for the loop's next round."""

PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """The accepting side of one listener."""

    def __init__(
        self,
        listener: Listener,
        sockets: list[ListeningSocket],
        counts: ConnectionCounts,
        rotation: Rotation,
        peer_lines: PeerLines,
    ) -> None:
        self.listener = listener
        self._sockets = sockets
        self._counts = counts
        self._rotation = rotation
        self._peer_lines = peer_lines
        self.accepted = 0
        """Connections taken in, those that have closed included."""
        self._is_accepting = False
        self._is_closed = False
        self._resumption: asyncio.TimerHandle | None = None
        self._has_said = False
        """Whether a line says that accepting has paused; the next one says that it goes on."""
        self.refused = 0
        """Connections closed because their address had too many."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the first address when a name has several."""
        return self._sockets[0].address

    def start(self) -> None:
        """Accept from now on."""
        self.resume()

    def resume(self) -> None:
        """Accept again if there is room: somebody has left, or a pause is over."""
        if self._is_accepting or self._is_closed or self._resumption is not None or not self._has_room():
            return
        self._is_accepting = True
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.add_reader(listening, self._on_readable, listening)

    def close(self) -> None:
        """Stop listening. Connections that were accepted are not touched."""
        if self._is_closed:
            return
        self._stop()
        self._is_closed = True
        if self._resumption is not None:
            self._resumption.cancel()
            self._resumption = None
        for listening in self._sockets:
            listening.close()

    def _stop(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            loop = asyncio.get_running_loop()
            for listening in self._sockets:
                loop.remove_reader(listening)

    def _has_room(self) -> bool:
        return self._counts.may_accept(self.listener) and self._rotation.has_room()

    def _on_readable(self, listening: ListeningSocket) -> None:
        for _ in range(ACCEPTS_MAX):
            if not self._has_room():
                self._stop()  # Until a connection closes.
                if self._counts.are_descriptors_used():
                    self._say_paused(f"all {self._counts.total} descriptors for connections are in use")
                return
            try:
                socket = listening.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(error)
                    return
                continue  # The peer left while it waited in the backlog.
            if socket is None:
                return
            if self._has_said:
                self._has_said = False
                self._peer_lines.info(self.listener.name, "accepting goes on", listener=self.listener.name)
            self._take_in(socket)

    def _take_in(self, socket: Socket) -> None:
        """Hand a new connection to its processor, or close it."""
        address, port = socket.peer_address
        if not self._counts.may_keep(address):
            self.refused += 1
            self._peer_lines.info(address, "connection refused", address=address, reason="max.connections.per.ip")
            socket.close()
            return
        self.accepted += 1
        local_address, local_port = socket.local_address
        name = f"{local_address}:{local_port}-{address}:{port}-{self.accepted}"
        peer = Peer(self.listener.name, self.listener.security_protocol, address, port, name)
        self._counts.opened(self.listener.name, address)
        self._rotation.take().adopt(socket, peer)

    def _pause(self, error: OSError) -> None:
        """Nothing can be opened now: leave the peers in the backlog for a while."""
        self._say_paused(str(error))
        self._stop()
        self._resumption = asyncio.get_running_loop().call_later(PAUSE_S, self._end_pause)

    def _say_paused(self, reason: str) -> None:
        if not self._has_said:
            self._has_said = True
            # A peer's doing, and it may do so again and again.
            name = self.listener.name
            self._peer_lines.warning(name, "accepting paused", listener=name, reason=reason)

    def _end_pause(self) -> None:
        self._resumption = None
        self.resume()
