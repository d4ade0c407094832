"""The coordination store of one process: ZooKeeper's semantics in memory, made durable in a file.

All znodes are in memory (`znode_tree.py`); the file (`database.py`) holds the persistent ones. Calls are queued, and
committed in groups: a *batch* is all queued calls. It is applied in order, saved as one transaction on the thread
behind `offload`, and only then its calls are answered and their watches fire. So a client never sees a write that a
crash could revert, the loop never waits for the disk, and a batch costs one fsync.

Several sessions, of several brokers in this process, share one store. Ephemeral znodes are never written, so they do
not exist after a restart; the transaction id is saved with every batch, so it never repeats.

If a batch cannot be saved it is undone in memory, its callers get ConnectionLoss, and every session goes through
SUSPENDED (watches are lost) to CONNECTED, as after a lost connection to ZooKeeper.
"""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from sordini.coordination_store.database import Database, open_database
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.coordination_store.znode_tree import Fired, ZnodeTree
from sordini.replication.ports import (
    Clock,
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Session,
    StoreUnusable,
    Watch,
    WatchEvent,
)

T = TypeVar("T")


class Offload(Protocol):
    """Runs calls that wait for the disk, one at a time and in order."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class _Call:
    """One queued call: its change of the tree, and the future for its answer."""

    __slots__ = ("answer", "error", "fired", "future", "work")

    def __init__(self, work: Callable[[], tuple[Any, list[Fired]]], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.answer: Any = None
        self.error: Exception | None = None
        self.fired: list[tuple[Watch, WatchEvent]] = []


class EmbeddedStore:
    """The store; open it with `EmbeddedStore.open`."""

    def __init__(self, database: Database, tree: ZnodeTree, offload: Offload, clock: Clock) -> None:
        self._database = database
        self._tree = tree
        self._offload = offload
        self._clock = clock
        self._sessions: dict[int, EmbeddedSession] = {}
        self._waiting: list[_Call] = []
        self._pump: asyncio.Task[None] | None = None
        self._closed = False
        self.on_close: Callable[[], None] = lambda: None
        """Called once the file is released."""

    @classmethod
    async def open(cls, path: str, offload: Offload, clock: Clock) -> EmbeddedStore:
        """Open the file, or create it; ":memory:" keeps nothing. Raises StoreUnusable."""

        def load() -> tuple[Database, ZnodeTree]:
            database = open_database(path)
            return database, ZnodeTree(*database.load())

        database, tree = await offload(load)
        return cls(database, tree, offload, clock)

    async def open_session(self) -> EmbeddedSession:
        if self._closed:
            raise ConnectionLoss
        # Not saved by itself: it is saved with the first write of the session.
        self._tree.zxid += 1
        session = EmbeddedSession(self, self._tree.zxid)
        self._sessions[session.session_id] = session
        return session

    async def close(self) -> None:
        """End all sessions, save queued calls, and release the file."""
        sessions = list(self._sessions.values())
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)
        self._closed = True
        if self._pump is not None:
            await self._pump
        await self._offload(self._database.close)
        self.on_close()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def tree(self) -> ZnodeTree:
        """For sessions only: the state that their calls change, within a batch."""
        return self._tree

    async def submit(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        """Queue a call and wait for its answer, which comes once its writes are durable."""
        if self._closed:
            raise ConnectionLoss
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(work, future))
        if self._pump is None:
            # In a context of its own: it serves all callers, and is no part of the one that came first.
            self._pump = asyncio.create_task(self._drain(), name="coordination store", context=contextvars.Context())
        return await future

    def forget(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._commit(batch)
        finally:
            self._pump = None

    async def _commit(self, batch: list[_Call]) -> None:
        """Apply a batch, save it, then answer."""
        self._tree.begin_batch()
        for call in batch:
            self._apply(call)
        dirty = list(self._tree.dirty())
        if dirty:
            try:
                await self._offload(partial(self._database.save, dirty, self._tree.zxid))
            except (sqlite3.Error, OSError) as error:
                self._fail(batch, error)
                return
        for call in batch:
            _answer(call)

    def _apply(self, call: _Call) -> None:
        try:
            call.answer, fired = call.work()
        except (CoordinationError, ValueError, AssertionError) as error:
            # A refusal, or an invalid path or operation: the caller gets it.
            call.error = error
        else:
            for happened in fired:
                for session in self._sessions.values():
                    call.fired += session.take_watches(*happened)

    def _fail(self, batch: list[_Call], error: Exception) -> None:
        self._tree.undo_batch()
        for call in batch:
            call.fired.clear()
            call.error = ConnectionLoss(f"the coordination store could not be saved: {error}")
            _answer(call)
        for session in list(self._sessions.values()):
            session.lose_watches()


class StoreThread:
    """One thread for calls that wait for the disk, in the order in which they are given; started by the first call."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def offload(self, call: Callable[[], T]) -> Awaitable[T]:
        """Run `call` on the thread; the loop gets its result or exception."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Let the thread end after its last call. Does not wait."""
        self._threads.shutdown(wait=False)


class StoreLease:
    """A `CoordinationStore` that one broker of several in a process closes, without closing the shared store."""

    def __init__(self, store: CoordinationStore) -> None:
        self._store = store
        self._sessions: list[Session] = []

    async def open_session(self) -> Session:
        session = await self._store.open_session()
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """End the sessions that were opened through this lease; the store stays open."""
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*(session.close() for session in sessions))


async def open_embedded(path: str, clock: Clock) -> EmbeddedStore:
    """The store in a file, with its own thread for the disk, which `close` ends. Raises StoreUnusable."""
    worker = StoreThread("coordination-store")
    try:
        store = await EmbeddedStore.open(path, worker.offload, clock)
    except StoreUnusable:
        worker.close()
        raise
    store.on_close = worker.close
    return store


def _answer(call: _Call) -> None:
    """Fire the watches and answer, each through the loop's queue, which keeps them in this order."""
    loop = call.future.get_loop()
    for watch, event in call.fired:
        loop.call_soon(watch, event)
    if call.future.done():
        return  # The caller was cancelled; its writes stay.
    if call.error is not None:
        call.future.set_exception(call.error)
    else:
        call.future.set_result(call.answer)
