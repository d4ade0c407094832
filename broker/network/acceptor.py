"""Accepts connections on one listener, and enforces the connection quotas.

The rules are Apache Kafka's: at `max.connections` (of the broker or the listener) nothing is accepted, so peers wait
in the backlog until a connection closes; at `max.connections.per.ip` a connection is accepted and closed at once. Peers
wait at `max.connection.creation.rate`, too (of the broker or the listener), and a connection of an address above its
quota is closed (KIP-612). At `NetworkLimits.descriptors_max` no listener accepts either: the last descriptors are for
logs. When the process runs out of descriptors nevertheless, accepting pauses for a second: the listening socket stays
readable, and trying again at once would spin.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sordini.broker.configuration.address_rules import ConnectionFacts, endpoint_name
from sordini.broker.network.connection_quotas import ConnectionQuotas
from sordini.broker.network.connection_rates import CLOSING_MAX
from sordini.broker.network.listener import Listener
from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.network.ports import ListeningSocket, Peer, Socket
from sordini.broker.network.processor import ProcessorRotation
from sordini.broker.network.tls_handshakes import HandshakeRefused

if TYPE_CHECKING:
    from sordini.broker.network.principal import Principal
    from sordini.broker.network.tls_handshakes import Handshakes, ServerTls

ACCEPTS_MAX: Final = 64
"""Connections accepted by one callback; the rest waits for the loop's next round."""

PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """The accepting side of one listener."""

    def __init__(
        self,
        listener: Listener,
        sockets: list[ListeningSocket],
        counts: ConnectionQuotas,
        rotation: ProcessorRotation,
        peer_log: PeerLogLimiter,
        handshakes: Handshakes | None,
        on_closed: Callable[[Peer], None],
    ) -> None:
        """`handshakes` are those of TLS listeners; `on_closed` is called when one of them fails."""
        self.listener = listener
        self._handshakes = handshakes
        self._on_closed = on_closed
        self._sockets = sockets
        self._counts = counts
        self._rotation = rotation
        self._peer_log = peer_log
        self.accepted = 0
        """Connections accepted since the start, closed ones included."""
        self._is_accepting = False
        self._is_closed = False
        self._resumption: asyncio.TimerHandle | None = None
        self._is_pause_logged = False
        """Whether `accepting paused` was logged; `accepting resumed` follows."""
        self.refused = 0
        """Connections closed because their address had too many."""

    @property
    def address(self) -> tuple[str, int]:
        """The bound address; the first one when a name has more."""
        return self._sockets[0].address

    def start(self) -> None:
        """Accept from now on."""
        self.resume()

    def resume(self) -> None:
        """Accept again if there is room: a connection has closed, or a pause is over."""
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
        if self.listener.tls is not None:
            assert self._handshakes is not None, "a TLS listener has handshakes"
            if not self._handshakes.has_room():
                return False
        return self._counts.may_accept(self.listener) and self._rotation.has_room()

    def _on_readable(self, listening: ListeningSocket) -> None:
        for _ in range(ACCEPTS_MAX):
            if not self._has_room():
                self._stop()  # Until a connection closes.
                if self._counts.are_descriptors_used():
                    self._log_pause(f"all {self._counts.total} descriptors for connections are in use")
                return
            if wait_ms := self._wait_ms():
                self._stop()
                self._resume_later(wait_ms / 1000)
                return
            try:
                socket = listening.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(error)
                    return
                continue  # The peer closed while it waited in the backlog.
            if socket is None:
                return
            if self._is_pause_logged:
                self._is_pause_logged = False
                self._peer_log.info(self.listener.name, "accepting resumed", listener=self.listener.name)
            self._adopt(socket)

    def _wait_ms(self) -> int:
        """How long the rates of connections let nothing be accepted."""
        return 0 if self._counts.rates is None else self._counts.rates.wait_ms(self.listener)

    def _is_too_fast(self, socket: Socket, address: str) -> bool:
        """Measure a connection; one of an address that connects too fast is closed after a pause."""
        rates = self._counts.rates
        wait_ms = 0 if rates is None else rates.accepted(self.listener, address)
        if rates is None or not wait_ms:
            return False
        self.refused += 1
        self._peer_log.info(address, "connection refused", address=address, reason="connection_creation_rate")
        if rates.closing >= CLOSING_MAX:
            socket.close()
            return True
        rates.closing += 1

        def close() -> None:
            rates.closing -= 1
            socket.close()

        asyncio.get_running_loop().call_later(wait_ms / 1000, close)
        return True

    def _adopt(self, socket: Socket) -> None:
        """Give a new connection to a processor, or close it."""
        address, port = socket.peer_address
        if self._is_too_fast(socket, address):
            return
        if not self._counts.may_keep(address):
            self.refused += 1
            self._peer_log.info(address, "connection refused", address=address, reason="max.connections.per.ip")
            socket.close()
            return
        self.accepted += 1
        local_address, local_port = socket.local_address
        name = f"{local_address}:{local_port}-{address}:{port}-{self.accepted}"
        peer = Peer(self.listener.name, self.listener.security_protocol, address, port, name, self._counts.accepted)
        if self.listener.begin_login is not None and not self.listener.begin_login(peer):
            self.refused += 1
            self._peer_log.info(address, "connection refused", address=address, reason="sordini.logins.pending.max")
            socket.close()
            return
        self._counts.opened(self.listener.name, address)
        if self.listener.tls is None:
            self._choose_addresses(peer, socket, None)
            self._rotation.take().adopt(socket, peer)
        else:
            self._secure(self.listener.tls, socket, peer)

    def _choose_addresses(self, peer: Peer, socket: Socket, server_name: str | None) -> None:
        """Decide, once, which addresses of brokers the connection is answered with."""
        if self.listener.address_rules:
            facts = ConnectionFacts(peer.address, socket.local_address, server_name)
            peer.endpoint_name = endpoint_name(self.listener.address_rules, facts) or peer.listener

    def _secure(self, tls: ServerTls, socket: Socket, peer: Peer) -> None:
        """Give a new connection to a processor once its handshake is complete."""
        assert self._handshakes is not None, "a TLS listener has handshakes"
        secured = tls.wrap(socket)

        def on_end(principal: Principal | None, error: BaseException | None) -> None:
            reason = "all processors are full" if error is None and not self._rotation.has_room() else error
            if principal is None or reason is not None:
                if error is None:
                    secured.close()
                self._peer_log.warning(
                    peer.address, "TLS handshake failed", peer=str(peer), listener=peer.listener, reason=str(reason)
                )
                if isinstance(error, HandshakeRefused) and self.listener.on_tls_refused is not None:
                    self.listener.on_tls_refused(peer, str(error))
                if peer.login is not None:
                    peer.login.closed()
                self._on_closed(peer)
                return
            peer.principal = principal
            self._choose_addresses(peer, secured, secured.server_name)
            self._rotation.take().adopt(secured, peer)
            self.resume()

        self._handshakes.begin(secured, on_end, tls.principal)

    def _pause(self, error: OSError) -> None:
        """Out of descriptors: leave the peers in the backlog for a while."""
        self._log_pause(str(error))
        self._stop()
        self._resume_later(PAUSE_S)

    def _resume_later(self, delay_s: float) -> None:
        self._resumption = asyncio.get_running_loop().call_later(delay_s, self._end_pause)

    def _log_pause(self, reason: str) -> None:
        if not self._is_pause_logged:
            self._is_pause_logged = True
            # Peers cause this line, as often as they like.
            name = self.listener.name
            self._peer_log.warning(name, "accepting paused", listener=name, reason=reason)

    def _end_pause(self) -> None:
        self._resumption = None
        self.resume()
