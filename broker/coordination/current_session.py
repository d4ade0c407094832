"""The session of the moment, as one that does not end: for those who need not know that sessions do.

A broker has one session with the coordination store after another. Whoever keeps this one calls whichever there is.
Between the end of a session and the beginning of the next calls fail with SessionExpired, as the port says: none is
kept for a session that its caller knows nothing of. Watches belong to the session in which they were set, and die
with it; the next one's CONNECTED says when to look, and watch, again.
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
        """The session that calls go to now, over or not."""
        self._listeners: list[Callable[[SessionState], None]] = []
        self._listen(session)

    def replace(self, session: Session) -> None:
        """Go on with a new session; listeners hear of its state as of a change."""
        self.current = session
        self._listen(session)
        asyncio.get_running_loop().call_soon(self._tell, session, session.state)

    def _listen(self, session: Session) -> None:
        session.on_state(lambda state: self._tell(session, state))

    def _tell(self, session: Session, state: SessionState) -> None:
        if session is self.current:  # What a former one has to say is no news.
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
