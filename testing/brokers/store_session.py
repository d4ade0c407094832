"""A broker's session with the coordination store that all brokers of a site share.

The store works outside of all brokers. So what it calls in a broker, its watches and its listeners, is called as that
broker's own, and not at all once it is dead; while the broker is paused it waits, as bytes in a socket would.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from sordini.coordination_store.database import IN_MEMORY
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.coordination_store.session_proxy import SessionProxy
from sordini.replication.ports import Clock, SessionState, Stat, Watch, WatchEvent
from sordini.testing.brokers.loop_processes import LoopProcess, ProcessLoop


async def store_in_memory(clock: Clock) -> EmbeddedStore:
    """A store that is saved nowhere, and so waits for no disk."""

    async def at_once(call: Callable[[], Any]) -> Any:
        return call()

    return await EmbeddedStore.open(IN_MEMORY, at_once, clock)


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


class ProcessSession(SessionProxy):
    """One session; see the port for what the methods promise."""

    def __init__(self, session: EmbeddedSession, process: LoopProcess, loop: ProcessLoop) -> None:
        super().__init__(session)
        self._process = process
        self._loop = loop
        self._watches: WeakValueDictionary[Watch, Watch] = WeakValueDictionary()
        """The store's callable for each of the broker's, while it is set: a watch that is set twice is still one."""

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        super().on_state(self._as_the_process(listener))

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await super().get(path, watch=self._watch(watch))

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        return await super().children(path, watch=self._watch(watch))

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        return await super().exists(path, watch=self._watch(watch))

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
                self._loop.call_soon(call, about, context=context)  # Held until the process is resumed.
            else:
                context.copy().run(call, about)

        return called
