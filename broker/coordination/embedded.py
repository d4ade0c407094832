"""The coordination store of one process: ZooKeeper's semantics in memory, made durable in a file.

All nodes live in memory (`tree.py`); the file (`database.py`) holds those that stay. Calls queue up, and a pump
takes all that wait as one *turn*: applies them in order, saves what changed as one transaction on the thread behind
`offload`, and only then answers them and fires their watches. So nothing is seen that a crash could take back, the
loop never waits for the disk, and any number of calls that wait together cost one force of the disk.

Several sessions, of several brokers in this process, share one store. Ephemeral nodes are never written, so they
are gone at the next open whatever the end was; the transaction count is saved with every turn, so it never repeats.

If a turn cannot be saved it is undone in memory, its callers get ConnectionLoss, and every session goes through
SUSPENDED (watches are lost) to CONNECTED, exactly as after a broken connection to ZooKeeper.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from sordini.broker.coordination.database import Database, open_database
from sordini.broker.coordination.store_thread import StoreThread
from sordini.broker.coordination.znode_tree import Fired, ZnodeTree
from sordini.replication.metadata_store.paths import parents
from sordini.replication.ports import (
    ANY_VERSION,
    Clock,
    ConnectionLoss,
    CoordinationError,
    Create,
    Delete,
    Operation,
    OperationResult,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    StoreUnusable,
    Watch,
    WatchEvent,
    WatchKind,
)

T = TypeVar("T")


class Offload(Protocol):
    """Run a call that waits for the disk; one at a time, in order."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class _Call:
    """One waiting call: what it does to the tree, and whom it answers."""

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
        # Not saved by itself: whatever the session makes has a later number, and is saved with it.
        self._tree.zxid += 1
        session = EmbeddedSession(self, self._tree.zxid)
        self._sessions[session.session_id] = session
        return session

    async def close(self) -> None:
        """End all sessions, let what waits be saved, and release the file."""
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
        """For the sessions alone: what their calls work on, in their turn."""
        return self._tree

    async def submit(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        """Queue a call and wait for its answer, which comes once what it wrote is on the disk."""
        if self._closed:
            raise ConnectionLoss
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(work, future))
        if self._pump is None:
            self._pump = asyncio.create_task(self._drain(), name="coordination store")
        return await future

    def forget(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    async def _drain(self) -> None:
        try:
            while self._waiting:
                turn, self._waiting = self._waiting, []
                await self._take(turn)
        finally:
            self._pump = None

    async def _take(self, turn: list[_Call]) -> None:
        """One turn: apply, save, then answer."""
        self._tree.begin_batch()
        for call in turn:
            self._apply(call)
        dirty = list(self._tree.dirty())
        if dirty:
            try:
                await self._offload(partial(self._database.save, dirty, self._tree.zxid))
            except (sqlite3.Error, OSError) as error:
                self._fail(turn, error)
                return
        for call in turn:
            _answer(call)

    def _apply(self, call: _Call) -> None:
        try:
            call.answer, fired = call.work()
        except (CoordinationError, ValueError, AssertionError) as error:
            # A refusal, or a path or an operation that makes no sense: either way it is the caller's.
            call.error = error
        else:
            for happened in fired:
                for session in self._sessions.values():
                    call.fired += session.take_watches(*happened)

    def _fail(self, turn: list[_Call], error: Exception) -> None:
        self._tree.undo_batch()
        for call in turn:
            call.fired.clear()
            call.error = ConnectionLoss(f"the turn could not be saved: {error}")
            _answer(call)
        for session in list(self._sessions.values()):
            session.lose_watches()


async def open_embedded(path: str, clock: Clock) -> EmbeddedStore:
    """The store in a file, with a thread of its own for the disk, which `close` ends. Raises StoreUnusable."""
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
        return  # Its caller has gone away; what it wrote stays.
    if call.error is not None:
        call.future.set_exception(call.error)
    else:
        call.future.set_result(call.answer)


class EmbeddedSession:
    """One session with the embedded store; see the port for what the methods promise."""

    def __init__(self, store: EmbeddedStore, session_id: int) -> None:
        self._store = store
        self._session_id = session_id
        self._state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], None]] = []
        # Insertion-ordered sets of callables, by path.
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def lives_until_ms(self) -> None:
        return None

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
        def work() -> tuple[OperationResult, list[Fired]]:
            above = [Create(parent) for parent in parents(path) if self._store.tree.stat(parent) is None]
            wanted = Create(path, data, ephemeral, sequential)
            results, fired = self._apply([*above, wanted] if make_parents else [wanted])
            return results[-1], fired

        return str(await self._submit_one(work))

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def work() -> tuple[tuple[bytes, Stat], list[Fired]]:
            found = self._store.tree.get(path)
            _remember(self._data_watches, path, watch)
            return found, []

        found: tuple[bytes, Stat] = await self._submit(work)
        return found

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stats: list[Stat] = await self._submit_one(partial(self._apply, [Set(path, data, version)]))
        return stats[0]

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._submit_one(partial(self._apply, [Delete(path, version)]))

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        def work() -> tuple[list[str], list[Fired]]:
            names = self._store.tree.children(path)
            _remember(self._child_watches, path, watch)
            return names, []

        names: list[str] = await self._submit(work)
        return names

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        def work() -> tuple[Stat | None, list[Fired]]:
            _remember(self._data_watches, path, watch)
            return self._store.tree.stat(path), []

        stat: Stat | None = await self._submit(work)
        return stat

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        results: list[OperationResult] = await self._submit(partial(self._apply, list(operations)))
        return results

    async def close(self) -> None:
        if self._end(SessionState.CLOSED):
            await self._store.submit(self._work_of_the_end)

    async def expire(self) -> None:
        """End the session as a store ends that of a silent client: for simulations and tests."""
        if self._end(SessionState.EXPIRED):
            await self._store.submit(self._work_of_the_end)
            self._tell()

    # For the store.

    def take_watches(self, kind: WatchKind, path: str) -> list[tuple[Watch, WatchEvent]]:
        """Remove and return the watches that something which happened sets off."""
        event = WatchEvent(kind, path, self._session_id)
        watches: dict[Watch, None] = {}
        if kind is not WatchKind.CHILDREN:
            watches |= self._data_watches.pop(path, {})
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            watches |= self._child_watches.pop(path, {})
        return [(watch, event) for watch in watches]

    def lose_watches(self) -> None:
        """A turn was undone: what the watches were set on may never have been."""
        self._data_watches.clear()
        self._child_watches.clear()
        for self._state in (SessionState.SUSPENDED, SessionState.CONNECTED):
            self._tell()

    def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, self._state)

    def _end(self, state: SessionState) -> bool:
        if self._state in (SessionState.CLOSED, SessionState.EXPIRED):
            return False
        self._state = state
        self._data_watches.clear()
        self._child_watches.clear()
        self._store.forget(self._session_id)
        return True

    def _work_of_the_end(self) -> tuple[None, list[Fired]]:
        return None, self._store.tree.end_session(self._session_id)

    async def _submit_one(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        """A single operation is refused by itself, not as a part of a multi."""
        try:
            return await self._submit(work)
        except CoordinationError as refusal:
            refusal.index = None
            raise

    async def _submit(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        if self._state in (SessionState.CLOSED, SessionState.EXPIRED):
            raise SessionExpired
        return await self._store.submit(work)

    def _apply(self, operations: Sequence[Operation]) -> tuple[list[OperationResult], list[Fired]]:
        results, fired = self._store.tree.apply(operations, self._session_id, self._store.now_ms())
        return results, fired


def _remember(watches: dict[str, dict[Watch, None]], path: str, watch: Watch | None) -> None:
    if watch is not None:
        watches.setdefault(path, {})[watch] = None
