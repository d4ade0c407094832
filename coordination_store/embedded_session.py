"""One session with the embedded store: its calls, its watches and its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from sordini.coordination_store.stateful_session import PathWatches, StatefulSession
from sordini.coordination_store.znode_tree import Fired, ZnodeTree
from sordini.replication.metadata_store.paths import parents
from sordini.replication.ports import (
    ANY_VERSION,
    CoordinationError,
    Create,
    Delete,
    Operation,
    OperationResult,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    Watch,
    WatchEvent,
    WatchKind,
)


class SessionHost(Protocol):
    """The store, as its sessions use it."""

    @property
    def tree(self) -> ZnodeTree: ...

    def now_ms(self) -> int: ...

    def forget(self, session_id: int) -> None: ...

    async def submit(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        """Queue a call and wait for its answer, which comes once its writes are durable."""


class EmbeddedSession(StatefulSession):
    """One session with the embedded store; see the port for what the methods promise."""

    def __init__(self, store: SessionHost, session_id: int) -> None:
        super().__init__(session_id, SessionState.CONNECTED)
        self._store = store
        self._data_watches, self._child_watches = PathWatches(), PathWatches()

    @property
    def lives_until_ms(self) -> None:
        return None

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
            created = Create(path, data, ephemeral, sequential)
            results, fired = self._apply([*above, created] if make_parents else [created])
            return results[-1], fired

        return str(await self._submit_one(work))

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def work() -> tuple[tuple[bytes, Stat], list[Fired]]:
            found = self._store.tree.get(path)
            self._data_watches.remember(path, watch)
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
            self._child_watches.remember(path, watch)
            return names, []

        names: list[str] = await self._submit(work)
        return names

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        def work() -> tuple[Stat | None, list[Fired]]:
            self._data_watches.remember(path, watch)
            return self._store.tree.stat(path), []

        stat: Stat | None = await self._submit(work)
        return stat

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        results: list[OperationResult] = await self._submit(partial(self._apply, list(operations)))
        return results

    async def close(self) -> None:
        if self._end(SessionState.CLOSED):
            await self._store.submit(self._delete_ephemerals)

    async def expire(self) -> None:
        """Expire the session, as ZooKeeper does for a silent client; only simulations and tests do so."""
        if self._end(SessionState.EXPIRED):
            await self._store.submit(self._delete_ephemerals)
            self._notify_listeners()

    # For the store.

    def take_watches(self, kind: WatchKind, path: str) -> list[tuple[Watch, WatchEvent]]:
        """Remove and return the watches that an event fires."""
        event = WatchEvent(kind, path, self._session_id)
        watches: dict[Watch, None] = {}
        if kind is not WatchKind.CHILDREN:
            watches |= self._data_watches.take(path)
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            watches |= self._child_watches.take(path)
        return [(watch, event) for watch in watches]

    def lose_watches(self) -> None:
        """A batch was undone: the state on which watches were set may never have existed."""
        self._data_watches.clear()
        self._child_watches.clear()
        for self._state in (SessionState.SUSPENDED, SessionState.CONNECTED):
            self._notify_listeners()

    def _end(self, state: SessionState) -> bool:
        if self.is_over:
            return False
        self._state = state
        self._data_watches.clear()
        self._child_watches.clear()
        self._store.forget(self._session_id)
        return True

    def _delete_ephemerals(self) -> tuple[None, list[Fired]]:
        return None, self._store.tree.end_session(self._session_id)

    async def _submit_one(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        """Submit a single operation: its refusal names no position in a multi."""
        try:
            return await self._submit(work)
        except CoordinationError as refusal:
            refusal.index = None
            raise

    async def _submit(self, work: Callable[[], tuple[Any, list[Fired]]]) -> Any:
        if self.is_over:
            raise SessionExpired
        return await self._store.submit(work)

    def _apply(self, operations: Sequence[Operation]) -> tuple[list[OperationResult], list[Fired]]:
        results, fired = self._store.tree.apply(operations, self._session_id, self._store.now_ms())
        return results, fired
