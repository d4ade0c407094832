"""Connections whose peer sends or takes nothing: uvicorn ends those between two requests only.

A peer has PEER_S for a whole request, from the start of the connection or the end of the response before it, and for
each part of a response. After that, or the same time later, its connection is aborted: otherwise a few hundred such
connections, for which no login is needed, are all that the process has.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PEER_S: Final = 30.0
_INCOMPLETE: Final = (h11.IDLE, h11.SEND_BODY)


class PeerBoundProtocol(H11Protocol):
    """HTTP of uvicorn, with a bound for the time of its peers."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._watch: asyncio.TimerHandle | None = None
        self._has_responded = False
        """Since the check before."""
        self._unsent_bytes = 0
        """At the check before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch = self.loop.call_later(PEER_S, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._has_responded = True
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._unsent_bytes = 0
        super().resume_writing()

    def _check(self) -> None:
        unsent_bytes = self.transport.get_write_buffer_size()
        # What a closed connection has not sent is waited for, too.
        takes_nothing = 0 < self._unsent_bytes <= unsent_bytes
        self._unsent_bytes = unsent_bytes
        if takes_nothing or self._sends_nothing():
            self.transport.abort()
        else:
            self._has_responded = False
            self._watch = self.loop.call_later(PEER_S, self._check)

    def _sends_nothing(self) -> bool:
        """Whether the rest of a request is late; while it is not read, that is not the peer's fault."""
        is_waited_for = self.conn.their_state in _INCOMPLETE and not self.flow.read_paused
        return is_waited_for and not self._has_responded and not self.transport.get_write_buffer_size()
