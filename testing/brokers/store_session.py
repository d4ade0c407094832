"""A broker's session with the coordination store that all brokers of a site share.

The store works outside of all brokers. So what it calls in a broker, its watches and its listeners, is called as that
broker's own, and not at all once it is dead; while the broker is paused it waits, as bytes in a socket would.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from sordini.broker.coordination_store.embedded import EmbeddedStore
from sordini.broker.coordination_store.embedded_session import EmbeddedSession
from sordini.replication.ports import (
    ANY_VERSION,
    Operation,
    OperationResult,
    SessionState,
    Stat,
    Watch,
    WatchEvent,
)
from sordini.testing.brokers.loop_processes import LoopProcess, ProcessLoop


class ProcessStore:
    """The shared store as one broker's process uses it."""

    def __init__(self, store: EmbeddedStore, process: LoopProcess, loop: ProcessLoop) -> None:
        self._store = store
        self._process = process
        self._loop = loop
        self._sessions: list[EmbeddedSession] = []

    async def open_session(self) -> ProcessSession:
        session = await self._store.open_session()
        self._sessions.append(session)
        return ProcessSession(session, self._process, self._loop)

    async def close(self) -> None:
        """End the sessions; the store stays open."""
        await self._each(lambda session: session.close())

    async def expire(self) -> None:
        """Expire the sessions, as those of a process that is silent."""
        await self._each(lambda session: session.expire())

    async def _each(self, end: Callable[[EmbeddedSession], Any]) -> None:
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await end(session)


class ProcessSession:
    """One session; see the port for what the methods promise."""

    def __init__(self, session: EmbeddedSession, process: LoopProcess, loop: ProcessLoop) -> None:
        self._session = session
        self._process = process
        self._loop = loop
        self._watches: dict[Watch, Watch] = {}
        """The store's callable for each of the broker's: a watch that is set twice is still one."""

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def state(self) -> SessionState:
        return self._session.state

    @property
    def lives_until_ms(self) -> int | None:
        return self._session.lives_until_ms

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._session.on_state(self._as_the_process(listener))

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        return await self._session.create(
            path, data, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
        )

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self._session.get(path, watch=self._watch(watch))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._session.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._session.delete(path, version)

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        return await self._session.children(path, watch=self._watch(watch))

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        return await self._session.exists(path, watch=self._watch(watch))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self._session.multi(operations)

    async def close(self) -> None:
        await self._session.close()

    def _watch(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        found = self._watches.get(watch)
        if found is None:
            found = self._watches[watch] = self._as_the_process(watch)
        return found

    def _as_the_process(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        """The call in the context of the process that is running now."""
        context = contextvars.copy_context()

        def called(about: SessionState | WatchEvent) -> None:
            if not self._process.alive:
                return
            if self._loop.is_paused(self._process):
                self._loop.call_soon(call, about, context=context)  # Held until it goes on.
            else:
                context.copy().run(call, about)

        return called
