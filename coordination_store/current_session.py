"""One session object across renewals, for callers that keep a session for the life of the broker.

A broker has one session with the coordination store after another; calls go to the current one. Between the end of a
session and the start of the next, calls fail with SessionExpired: none is queued for a later session. Watches belong to
the session in which they were set, and end with it; CONNECTED of the next session tells listeners to read, and watch,
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.coordination_store.session_proxy import SessionProxy
from sordini.replication.ports import Session, SessionState


class CurrentSession(SessionProxy):
    """One session after another; see the port for what the methods promise."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._listeners: list[Callable[[SessionState], None]] = []
        self._listen(session)

    def replace(self, session: Session) -> None:
        """Replace the session by a new one; listeners are notified of its state."""
        self.current = session
        self._listen(session)
        asyncio.get_running_loop().call_soon(self._notify, session, session.state)

    def _listen(self, session: Session) -> None:
        session.on_state(lambda state: self._notify(session, state))

    def _notify(self, session: Session, state: SessionState) -> None:
        if session is self.current:  # Events of a former session are ignored.
            for listener in self._listeners:
                listener(state)

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)
