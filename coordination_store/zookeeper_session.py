"""One session with ZooKeeper, on kazoo's thread and on the loop.

kazoo runs the connection on its own thread and puts results and watches into two queues. Here both leave that thread
through `loop.call_soon_threadsafe`, in the order in which the server sent them, so the loop gets ZooKeeper's ordering
guarantees. kazoo's worker threads are never started.

One kazoo client serves one session: once the session has ended the client refuses to connect, and calls fail here, on
the loop, before they reach it. The loop never waits for ZooKeeper; a server that hangs leads to SUSPENDED after two
thirds of the session timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo import exceptions as kazoo_exceptions
from kazoo.protocol.states import KazooState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from sordini.coordination_store.kazoo_handler import LoopHandler, OrderedResult, TimedClient
from sordini.coordination_store.kazoo_operations import add_operation
from sordini.coordination_store.kazoo_values import NOT_THE_REASON, WATCH_KINDS, error_of, stat_of
from sordini.coordination_store.kazoo_watches import KazooWatches
from sordini.coordination_store.stateful_session import PathWatches, StatefulSession
from sordini.coordination_store.znode_tree import check_path
from sordini.coordination_store.zookeeper_access import OPEN, ZooKeeperAccess
from sordini.replication.metadata_store.paths import parents
from sordini.replication.ports import (
    ANY_VERSION,
    ConnectionLoss,
    Create,
    NodeExists,
    NoNode,
    Operation,
    OperationResult,
    SessionExpired,
    SessionState,
    Stat,
    Watch,
    WatchEvent,
)

CLOSE_WAIT_MS_MAX = 2_000
"""How long the close of a session may take when ZooKeeper hangs."""


class ZooKeeperSession(StatefulSession):
    """One session with ZooKeeper; see the port for what the methods promise."""

    def __init__(self, hosts: str, chroot: str, session_timeout_ms: int, access: ZooKeeperAccess = OPEN) -> None:
        super().__init__(0, SessionState.SUSPENDED)
        self._access = access
        self._loop = asyncio.get_running_loop()
        self._chroot = chroot
        self._pending: dict[OrderedResult, tuple[asyncio.Future[Any], Callable[[], None] | None]] = {}
        self._data_watches, self._child_watches = KazooWatches(self._notify), KazooWatches(self._notify)
        self._first_connected: asyncio.Future[None] = self._loop.create_future()
        self._handler = LoopHandler(self._post, self._complete_call, self._loop.call_soon, access.tls)
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=self._handler.sleep_func)
        self._client = TimedClient(
            hosts, self._handler, access.login, timeout_ms=session_timeout_ms, connection_retry=retry
        )
        self._client.add_listener(self._state_on_the_thread)
        self._client.start_async()

    @property
    def lives_until_ms(self) -> int:
        connection = self._client.timed_connection
        return int(connection.extended_ms + connection.session_timeout_ms)

    @property
    def tls_failure(self) -> str | None:
        """Why the newest attempt to connect by TLS failed."""
        return self._client.timed_connection.tls_failure

    async def connected(self) -> None:
        """Wait for the first connection."""
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
        operations = [Create(path, data, ephemeral, sequential)]
        try:
            (created,) = await self._multi(operations)
        except NoNode:
            if not make_parents:
                raise
            await self._make_parents(path)
            (created,) = await self._multi(operations)
        return str(created)

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        data, stat = await self._read(self._client.get_async, path, self._data_watches, watch)
        return data or b"", stat_of(stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = await self._call(path, partial(self._client.set_async, self._inside(path), data, version))
        return stat_of(stat)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call(path, partial(self._client.delete_async, self._inside(path), version))

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        names: list[str] = await self._read(self._client.get_children_async, path, self._child_watches, watch)
        return names

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        stat = await self._read(self._client.exists_async, path, self._data_watches, watch)
        return None if stat is None else stat_of(stat)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self._multi(operations, numbered=True)

    async def close(self) -> None:
        released = self.end()
        if released is not None:
            await released

    def end(self) -> asyncio.Future[None] | None:
        """As `close`, without waiting: the future is done when ZooKeeper has closed the session, or at a deadline."""
        if self.is_over:
            return None
        is_connected = self._state is SessionState.CONNECTED
        self._finish(SessionState.CLOSED)
        # Without a connection the session cannot be closed: it expires.
        return self._release(CLOSE_WAIT_MS_MAX if is_connected else 0)

    # Calls.

    async def _make_parents(self, path: str) -> None:
        """Create the parents of a path, the chroot included."""
        if self._chroot:
            await self._make([*parents(self._chroot), self._chroot], below_chroot=False)
        await self._make(parents(path))

    async def _make(self, paths: Sequence[str], *, below_chroot: bool = True) -> None:
        # One round trip for all: ZooKeeper carries out the calls of a session in order, so each finds its parent.
        made = await asyncio.gather(
            *(self._multi([Create(path)], below_chroot=below_chroot) for path in paths), return_exceptions=True
        )
        for outcome in made:
            if isinstance(outcome, BaseException) and not isinstance(outcome, NodeExists):
                raise outcome

    async def _multi(
        self, operations: Sequence[Operation], *, numbered: bool = False, below_chroot: bool = True
    ) -> list[OperationResult]:
        transaction = self._client.transaction()
        for operation in operations:
            check_path(operation.path)
            path = self._inside(operation.path) if below_chroot else operation.path
            add_operation(transaction, path, operation, self._access.acl_of)
        answers = await self._call("", transaction.commit_async)
        for index, answer in enumerate(answers):
            if isinstance(answer, Exception) and not isinstance(answer, NOT_THE_REASON):
                raise error_of(answer, operations[index].path, index if numbered else None)
        return [self._result(answer) for answer in answers]

    def _result(self, answer: Any) -> OperationResult:
        if isinstance(answer, ZnodeStat):
            return stat_of(answer)
        return self._outside(answer) if isinstance(answer, str) else None

    async def _read(
        self, call: Callable[..., OrderedResult], path: str, watches: KazooWatches, watch: Watch | None
    ) -> Any:
        send = partial(call, self._inside(path), watch=watches.fired if watch is not None else None)
        return await self._call(path, send, partial(watches.remember, path, watch))

    async def _call(self, path: str, send: Callable[[], OrderedResult], then: Callable[[], None] | None = None) -> Any:
        """Send a call. The answer is matched on the loop, so it cannot arrive before the call is registered."""
        if path:
            check_path(path)
        if self.is_over:
            raise SessionExpired(path)
        if self._state is SessionState.SUSPENDED:
            # kazoo would queue the call for the next connection, however late that is.
            raise ConnectionLoss(path)
        future = self._loop.create_future()
        self._pending[send()] = future, then
        try:
            return await future
        except kazoo_exceptions.KazooException as error:
            raise error_of(error, path, None) from None

    def _inside(self, path: str) -> str:
        return path if not self._chroot else self._chroot if path == "/" else self._chroot + path

    def _outside(self, path: str) -> str:
        return path.removeprefix(self._chroot) or "/"

    # Answers and events, on the loop and in order.

    def _complete_call(self, result: OrderedResult) -> None:
        future, then = self._pending.pop(result, (None, None))
        if future is None:
            return
        if result.successful():
            if then is not None:
                then()
            if not future.done():
                future.set_result(result.value)
        elif not future.done():
            future.set_exception(result.exception)

    def _notify(self, event: WatchedEvent, watches: PathWatches) -> None:
        kind = WATCH_KINDS.get(event.type)
        if kind is None or self.is_over:
            return  # Lost with the connection: listeners are notified of the state.
        path = self._outside(event.path)
        for watch in watches.take(path):
            # Through the loop's queue: the caller of an earlier answer runs first.
            self._loop.call_soon(watch, WatchEvent(kind, path, self._session_id))

    def _changed(self, state: str, session_id: int) -> None:
        if self.is_over:
            return
        if state == KazooState.CONNECTED:
            self._session_id = session_id
            self._state = SessionState.CONNECTED
            if not self._first_connected.done():
                self._first_connected.set_result(None)
        elif state == KazooState.SUSPENDED:
            self._state = SessionState.SUSPENDED
            self._clear_watches()
        else:
            self._finish(SessionState.EXPIRED)
            self._release(0)
        self._notify_listeners()

    def _clear_watches(self) -> None:
        self._data_watches.clear()
        self._child_watches.clear()

    def _finish(self, state: SessionState) -> None:
        self._state = state
        self._handler.ended.set()
        self._clear_watches()
        if not self._first_connected.done():
            self._first_connected.set_exception(SessionExpired())
        for future, _ in self._pending.values():
            if not future.done():
                future.set_exception(kazoo_exceptions.SessionExpiredError())
        self._pending.clear()

    def _release(self, wait_ms_max: int) -> asyncio.Future[None]:
        """Stop kazoo's thread, from another thread because that blocks; the future waits `wait_ms_max` at most."""
        released = self._loop.create_future()
        self._handler.spawn(self._stop_client, released)
        deadline = self._loop.call_later(wait_ms_max / 1000, _resolve, released)
        released.add_done_callback(lambda _: deadline.cancel())
        return released

    # On kazoo's threads.

    def _state_on_the_thread(self, state: str) -> None:
        if state == KazooState.LOST:
            self._handler.ended.set()
        client_id = self._client.client_id
        self._post(self._changed, state, client_id[0] if client_id else 0)

    def _stop_client(self, released: asyncio.Future[None]) -> None:
        try:
            self._client.stop()
            self._client.close()
        except kazoo_exceptions.WriterNotClosedException:
            return  # The server hangs; the thread is a daemon, and the session expires.
        self._post(_resolve, released)

    def _post(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            # The loop is closed: the broker has stopped.
            assert self._loop.is_closed()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
