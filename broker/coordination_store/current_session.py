"""One session object across renewals, for callers that keep a session for the life of the broker.

A broker has one session with the coordination store after another; calls go to the current one. Between the end of a
session and the start of the next, calls fail with SessionExpired: none is queued for a later session. Watches belong to
the session in which they were set, and end with it; CONNECTED of the next session tells listeners to read, and watch,
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from sordini.replication.ports import (
    ANY_VERSION,
    Operation,
    OperationResult,
    Session,
    SessionState,
    Stat,
    Watch,
)


class CurrentSession:
    """One session after another; see the port for what the methods promise."""

    def __init__(self, session: Session) -> None:
        self.current = session
        """The session that calls go to; it may have expired."""
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

    @property
    def session_id(self) -> int:
        return self.current.session_id

    @property
    def state(self) -> SessionState:
        return self.current.state

    @property
    def lives_until_ms(self) -> int | None:
        return self.current.lives_until_ms

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        return await self.current.create(
            path, data, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
        )

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self.current.get(path, watch=watch)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self.current.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.current.delete(path, version)

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        return await self.current.children(path, watch=watch)

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        return await self.current.exists(path, watch=watch)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self.current.multi(operations)

    async def close(self) -> None:
        await self.current.close()
