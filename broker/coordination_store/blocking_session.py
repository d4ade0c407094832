"""Sessions with ZooKeeper for programs on threads: those of `zookeeper.py`, on a loop in a thread of their own.

One `changed` stands for all watches of a session and for its state: the caller reads again whatever it depends on. A
session is never replaced by another one; its calls raise SessionExpired and ConnectionLoss (`replication/ports.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, Final, TypeVar

from sordini.broker.clock import SystemClock
from sordini.broker.coordination_store.zookeeper import ZooKeeperStore
from sordini.replication.ports import ConnectionLoss, NodeExists, NoNode, Session, SessionState, Stat, Watch

T = TypeVar("T")
_MARGIN: Final = 0.25


class BlockingStore:
    """An ensemble, named as in `zookeeper.connect`."""

    def __init__(self, connect: str, *, session_timeout_ms: int, connection_timeout_ms: int) -> None:
        """Raises ValueError for a malformed chroot."""
        self._store = ZooKeeperStore(
            connect, session_timeout_ms=session_timeout_ms, connection_timeout_ms=connection_timeout_ms
        )
        self._margin_s = session_timeout_ms / 1000 * _MARGIN
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="zookeeper-sessions", daemon=True)
        self._thread.start()

    def open_session(self, changed: Callable[[], None]) -> BlockingSession:
        """A connected session; `changed` is called on the loop's thread. Raises StoreUnusable."""
        session = self.run(self._store.open_session())
        opened = BlockingSession(self.run, session, changed, self._margin_s)
        self._loop.call_soon_threadsafe(session.on_state, opened.notify)
        return opened

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End all sessions; their ephemeral nodes are gone when this returns, if ZooKeeper answers. Once is enough."""
        if self._loop.is_closed():
            return
        self.run(self._store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingSession:
    """One session. With `watch`, `changed` is called at the next change of what was read."""

    def __init__(self, run: Callable[..., Any], session: Session, changed: Callable[[], None], margin_s: float) -> None:
        self._run = run
        self._margin_s = margin_s
        self._session = session
        self._changed = changed
        self._watch: Watch = self.notify  # One callable: it is set once on each path.

    def notify(self, _what: object) -> None:
        """A watch fired, or the state has changed."""
        self._changed()

    @property
    def is_open(self) -> bool:
        """Whether it has neither expired nor been closed, as far as this client knows."""
        return self._session.state in (SessionState.CONNECTED, SessionState.SUSPENDED)

    @property
    def lease_s(self) -> float:
        """For how many seconds from now on the session certainly lasts, and no one else owns what it owns; or 0.

        It ends a quarter of the session timeout early: for clocks of other speeds, and for a server that extended the
        session and failed before it told the others.
        """
        lives_until_ms = self._session.lives_until_ms
        assert lives_until_ms is not None, "ZooKeeper expires sessions"
        left_s = lives_until_ms / 1000 - self._margin_s - SystemClock().monotonic_ms() / 1000
        return max(0.0, left_s) if self.is_open else 0.0

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """A node's data; None without the node, whose creation is watched then."""
        found: tuple[bytes, Stat] | None = self._read(self._session.get, path, watch, None)
        return found

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        """The sorted names of a node's children; none without the node, whose creation is watched then."""
        return sorted(self._read(self._session.children, path, watch, ()))

    def owns(self, path: str) -> bool:
        """Whether the node exists and ends with this session."""
        return self._owner(path, watch=False) == self._session.session_id

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        """Make a node that ends with this session, and its parents. False: another session has it, watched."""
        while True:
            try:
                self._run(self._session.create(path, data, ephemeral=True, make_parents=True))
            except NodeExists:
                owner = self._owner(path, watch=True)
                if owner is not None:  # Otherwise it has just been deleted, which the watch would not report.
                    return owner == self._session.session_id
            else:
                return True

    def put(self, path: str, data: bytes) -> None:
        """Set a persistent node, or make it."""
        try:
            self._run(self._session.set(path, data))
        except NoNode:
            self._run(self._session.create(path, data, make_parents=True))

    def delete_own(self, path: str) -> None:
        """Delete a node if it ends with this session."""
        if self.owns(path):
            self._run(self._session.delete(path))

    def close(self) -> None:
        """End the session and its ephemeral nodes; without an answer of ZooKeeper they end with its timeout."""
        try:
            self._run(self._session.close())
        except ConnectionLoss:
            return

    def _owner(self, path: str, *, watch: bool) -> int | None:
        """The session that a node ends with; None without the node."""
        stat = self._run(self._session.exists(path, watch=self._watch if watch else None))
        return None if stat is None else int(stat.ephemeral_owner)

    def _read(self, read: Callable[..., Any], path: str, watch: bool, nothing: Any) -> Any:  # noqa: FBT001 - passed on.
        fired = self._watch if watch else None
        try:
            return self._run(read(path, watch=fired))
        except NoNode:
            if watch and self._run(self._session.exists(path, watch=fired)) is not None:
                return self._read(read, path, watch, nothing)
            return nothing
