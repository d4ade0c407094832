"""A connection over TLS: a channel that also receives plaintext that was left when its socket is not readable.

One receive may decrypt more than fits into the buffer of a frame's rest, and the descriptor of a socket whose bytes
were all received is not readable. So after each slice, and when reading is resumed, what is left is received in the
next round of the loop: as a readable descriptor would be.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sordini.broker.network.channel import Channel

if TYPE_CHECKING:
    from sordini.broker.network.ports import Peer
    from sordini.broker.network.processor import Processor
    from sordini.broker.network.tls_socket import BrokerTlsSocket


class TlsChannel(Channel):
    """A connection that a processor owns, over TLS."""

    __slots__ = ("_is_due", "_tls_socket")

    def __init__(self, processor: Processor, socket: BrokerTlsSocket, peer: Peer) -> None:
        super().__init__(processor, socket, peer)
        self._tls_socket = socket
        self._is_due = False
        """Whether the loop calls `_receive_left` in its next round."""

    def _on_readable(self) -> None:
        super()._on_readable()
        if self._is_reading and not self._is_due and self._tls_socket.has_pending:
            self._schedule()

    def _read(self, *, wanted: bool) -> None:
        super()._read(wanted=wanted)
        if wanted and not self._is_due and self._tls_socket.has_pending:
            self._schedule()

    def _schedule(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_soon(self._receive_left)

    def _receive_left(self) -> None:
        self._is_due = False
        if self._is_reading:
            if self.is_ready:
                self._schedule()  # After the slice that is due.
            else:
                self._on_readable()
