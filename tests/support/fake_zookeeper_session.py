"""A client's end of the sessions with the simulated ensemble: the coordination store's port, as a process reaches it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from sordini.coordination_store.znode_tree import Fired, check_path
from sordini.replication.metadata_store.paths import parents
from sordini.replication.ports import (
    ANY_VERSION,
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
)
from tests.support.fake_zookeeper import SimZk, Stream, Work

OVER = (SessionState.CLOSED, SessionState.EXPIRED)


class SimZkStore:
    """The ensemble as one process reaches it."""

    def __init__(self, zk: SimZk, host: str, timeout_s: float, connection_timeout_s: float = 5.0) -> None:
        self._zk = zk
        self._host = host
        self._timeout_s = timeout_s
        self._connection_timeout_s = connection_timeout_s
        self._sessions: list[SimZkSession] = []

    async def open_session(self) -> SimZkSession:
        """Raises StoreUnusable when the ensemble does not answer in time."""
        session = SimZkSession(self._zk, self._host, self._timeout_s)
        try:
            await asyncio.wait_for(session.connected(), self._connection_timeout_s)
        except TimeoutError:
            await session.close()
            raise StoreUnusable("no ZooKeeper answered") from None
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions))


class SimZkSession:
    """One session; see the port for what the methods promise."""

    def __init__(self, zk: SimZk, host: str, timeout_s: float) -> None:
        self.host = host
        self._zk = zk
        self._loop = zk.loop
        self._timeout_s = timeout_s
        self._context = contextvars.copy_context()
        self._session_id = 0
        self._state = SessionState.SUSPENDED
        self._connection = 0
        self._up: Stream | None = None
        self._last_answer = 0.0
        self._listeners: list[Callable[[SessionState], None]] = []
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._first_connected: asyncio.Future[None] = zk.loop.create_future()
        self._connect()
        self._beat()

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def lives_until_ms(self) -> int:
        return int((self._last_answer + self._timeout_s) * 1000)

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def connected(self) -> None:
        await self._first_connected

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
            tree = self._zk.tree
            above = [Create(parent) for parent in parents(path) if tree.stat(parent) is None] if make_parents else []
            results, fired = self._apply([*above, Create(path, data, ephemeral, sequential)])
            return results[-1], fired

        return str(await self._submit_one(path, work))

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def work() -> tuple[tuple[bytes, Stat], list[Fired]]:
            found = self._zk.tree.get(path)
            self._zk.remember(self._session_id, path, watch, of_children=False)
            return found, []

        found: tuple[bytes, Stat] = await self._submit_one(path, work)
        return found

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stats: list[Stat] = await self._submit_one(path, lambda: self._apply([Set(path, data, version)]))
        return stats[0]

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._submit_one(path, lambda: self._apply([Delete(path, version)]))

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        def work() -> tuple[list[str], list[Fired]]:
            names = self._zk.tree.children(path)
            self._zk.remember(self._session_id, path, watch, of_children=True)
            return names, []

        names: list[str] = await self._submit_one(path, work)
        return names

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        def work() -> tuple[Stat | None, list[Fired]]:
            stat = self._zk.tree.stat(path)
            self._zk.remember(self._session_id, path, watch, of_children=False)
            return stat, []

        stat: Stat | None = await self._submit_one(path, work)
        return stat

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        fixed = list(operations)
        results: list[OperationResult] = await self._submit(lambda: self._apply(fixed))
        return results

    async def close(self) -> None:
        if self._state in OVER:
            return
        up, session_id, was = self._up, self._session_id, self._state
        self._finish(SessionState.CLOSED)
        if was is SessionState.CONNECTED and up is not None:
            closed = self._loop.create_future()
            down = Stream(self._zk, self.host, self._context)
            up.send(lambda: (self._zk.end(session_id), down.send(lambda: _resolve(closed))))  # type: ignore[arg-type, return-value]
            await asyncio.wait([closed], timeout=self._timeout_s)

    # What arrives.

    def is_connected(self, connection: int, session_id: int) -> None:
        if connection != self._connection or self._state in OVER:
            return
        self._session_id, self._last_answer = session_id, self._loop.time()
        self._change(SessionState.CONNECTED)
        _resolve(self._first_connected)

    def is_expired(self, session_id: int) -> None:
        """A session is over: this one, or one that was opened by an attempt to connect that came too late to count."""
        if self._state not in OVER and session_id == self._session_id:
            self._change(SessionState.EXPIRED)
            self._finish(SessionState.EXPIRED)

    def lose_connection(self) -> None:
        """The connection is lost: whether its pending requests took effect is unknown."""
        if self._state is SessionState.CONNECTED:
            self._change(SessionState.SUSPENDED)
            self._fail(ConnectionLoss())
            if self._up is not None and self._zk.loses():
                self._up.lose()
            self._connection += 1  # Later messages of the old one are ignored.
            self._loop.call_later(self._zk.reconnect_delay(), self._connect, context=self._context)

    def _connect(self) -> None:
        if self._state is not SessionState.SUSPENDED:
            return
        self._connection += 1
        connection, session_id, timeout_s = self._connection, self._session_id, self._timeout_s
        self._last_answer = self._loop.time()
        down = Stream(self._zk, self.host, self._context)
        self._up = up = Stream(self._zk, self.host, contextvars.Context())
        up.send(lambda: self._zk.connect(session_id, connection, down, self, timeout_s))

    def _beat(self) -> None:
        """Send a ping now and then, and notice when no answer comes."""
        if self._state in OVER:
            return
        silent = self._loop.time() - self._last_answer > self._timeout_s * 2 / 3
        if self._state is SessionState.CONNECTED:
            if silent:
                self.lose_connection()
            else:
                self._send(None, self._pong_received)
        elif silent:
            self._connect()
        self._loop.call_later(self._timeout_s / 4, self._beat, context=self._context)

    def _pong_received(self, _: object) -> None:
        self._last_answer = self._loop.time()

    def _change(self, state: SessionState) -> None:
        self._state = state
        for listener in self._listeners:
            self._loop.call_soon(listener, state, context=self._context)

    def _finish(self, state: SessionState) -> None:
        self._state = state
        self._fail(SessionExpired())
        if not self._first_connected.done():
            self._first_connected.set_exception(SessionExpired())
            self._first_connected.exception()

    def _fail(self, error: CoordinationError) -> None:
        for future in self._pending:
            if not future.done():
                future.set_exception(type(error)())
                future.exception()
        self._pending.clear()

    # Calls.

    async def _submit_one(self, path: str, work: Work) -> Any:
        """A single operation is refused by itself, not as a part of a multi."""
        check_path(path)
        try:
            return await self._submit(work)
        except CoordinationError as refusal:
            refusal.index = None
            raise

    async def _submit(self, work: Work) -> Any:
        if self._state in OVER:
            raise SessionExpired
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLoss
        future = self._loop.create_future()
        self._pending[future] = None

        def answered(result: Any) -> None:
            self._pong_received(None)
            self._pending.pop(future, None)
            if future.done():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self._send(work, answered)
        return await future

    def _send(self, work: Work | None, answered: Callable[[Any], None]) -> None:
        assert self._up is not None
        session_id, connection = self._session_id, self._connection

        def answer(result: Any) -> None:
            if connection == self._connection and self._state is SessionState.CONNECTED:
                answered(result)

        self._up.send(lambda: self._zk.serve(session_id, connection, work, answer))

    def _apply(self, operations: Sequence[Operation]) -> tuple[list[OperationResult], list[Fired]]:
        results, fired = self._zk.tree.apply(operations, self._session_id, self._zk.now_ms())
        return results, fired


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
