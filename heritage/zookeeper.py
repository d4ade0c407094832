"""ZooKeeper for programs on threads: the broker's own sessions (`broker/coordination_store`), on a loop in a thread.

A session is never replaced behind the caller's back. `lease_s` is the time for which it certainly lasts: the server
extends a session when a request reaches it, so we count from when the newest answered request left, on our own clock,
and stop a quarter of the session timeout early, for clocks of other speeds and for servers that have not told each
other yet. Before the lease is over, no one else can see our ephemeral nodes disappear.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, Final, TypeVar

from sordini.broker.coordination_store.store_location import EMBEDDED, ZOOKEEPER, location_of
from sordini.heritage.errors import NoZooKeeper
from sordini.replication.ports import ConnectionLoss, NodeExists, NoNode, Session, SessionState, Stat, StoreUnusable, Watch

T = TypeVar("T")

_MARGIN: Final = 0.25
_NEEDED: Final = (
    "brokers on the embedded store have no ZooKeeper, and their consumer groups are those of aiokafka, kafka-python and "
    "confluent-kafka; without a group use a SimpleConsumer, and a Producer with broker.list"
)


class ZooKeeper:
    """An ensemble, as in `zookeeper.connect`."""

    def __init__(self, connect: str, session_timeout_ms: int, connection_timeout_ms: int) -> None:
        """Raises NoZooKeeper for what is no address of an ensemble."""
        if not connect or connect.startswith(f"{EMBEDDED}:"):
            raise NoZooKeeper(
                f"this client coordinates through ZooKeeper, and zookeeper.connect is {connect!r}: {_NEEDED}"
            )
        try:
            location = location_of(f"{ZOOKEEPER}:{connect}")
        except ValueError as error:
            raise NoZooKeeper(f"zookeeper.connect is {connect!r}: {error}") from None
        from sordini.broker.coordination_store.zookeeper import ZooKeeperStore  # Late: kazoo is slow to import.

        self._connect = connect
        self._session_timeout_ms = session_timeout_ms
        self._loop = asyncio.new_event_loop()
        self._store = ZooKeeperStore(
            f"{location.where}{location.root}",
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=connection_timeout_ms,
        )
        self._thread = Thread(target=self._loop.run_forever, name="heritage-zookeeper", daemon=True)
        self._thread.start()

    def open(self, changed: Callable[[], None]) -> ZooKeeperSession:
        """A new session. `changed` is called in the loop's thread at every watched change, and of the session's state.

        Raises NoZooKeeper when none answers within the connection timeout.
        """
        try:
            session = self.run(self._store.open_session())
        except StoreUnusable as error:
            raise NoZooKeeper(f"{error}: {_NEEDED}") from None
        opened = ZooKeeperSession(self, session, changed, self._session_timeout_ms)
        self._loop.call_soon_threadsafe(session.on_state, lambda _: changed())
        return opened

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End all sessions; their ephemeral nodes are gone when this returns, if ZooKeeper answers."""
        self.run(self._store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class ZooKeeperSession:
    """One session. Every call may raise SessionExpired or ConnectionLoss of `replication/ports.py`."""

    def __init__(self, zookeeper: ZooKeeper, session: Session, changed: Callable[[], None], timeout_ms: int) -> None:
        self.id = session.session_id
        self._run = zookeeper.run
        self._session = session
        self._fired: Watch = lambda _event: changed()  # One callable, so that it is set once on each path.
        self._margin_s = timeout_ms / 1000 * _MARGIN

    @property
    def is_open(self) -> bool:
        """Whether it has neither expired nor been closed, as far as the client knows."""
        return self._session.state in (SessionState.CONNECTED, SessionState.SUSPENDED)

    @property
    def lease_s(self) -> float:
        """For how many seconds from now on the session certainly lasts; 0 when that is not certain."""
        lives_until_ms = self._session.lives_until_ms
        assert lives_until_ms is not None, "ZooKeeper expires sessions"
        left_s = lives_until_ms / 1000 - self._margin_s - time.monotonic()
        return max(0.0, left_s) if self.is_open else 0.0

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """A node's data, or None without the node; a watch fires when it is set, deleted or created."""
        try:
            return self._run(self._session.get(path, watch=self._fired if watch else None))
        except NoNode:
            if watch:
                self._run(self._session.exists(path, watch=self._fired))
            return None

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        """The names of a node's children in order; none without the node."""
        try:
            return sorted(self._run(self._session.children(path, watch=self._fired if watch else None)))
        except NoNode:
            if watch:
                self._run(self._session.exists(path, watch=self._fired))
            return []

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        """Make a node that ends with the session; False when another session has it."""
        try:
            self._run(self._session.create(path, data, ephemeral=True, make_parents=True))
        except NodeExists:
            return self.owns(path, watch=True)
        return True

    def owns(self, path: str, *, watch: bool = False) -> bool:
        """Whether the node is there and ends with this session."""
        stat = self._run(self._session.exists(path, watch=self._fired if watch else None))
        return stat is not None and stat.ephemeral_owner == self.id

    def put(self, path: str, data: bytes) -> None:
        """Set a node that stays, and make it if it is missing."""
        try:
            self._run(self._session.set(path, data))
        except NoNode:
            self._run(self._session.create(path, data, make_parents=True))

    def delete_own(self, path: str) -> None:
        """Delete a node of this session; one of another session, and none, stay as they are."""
        try:
            if self.owns(path):
                self._run(self._session.delete(path))
        except NoNode:
            return

    def close(self) -> None:
        """End the session and its ephemeral nodes; when ZooKeeper does not answer, they end with its timeout."""
        try:
            self._run(self._session.close())
        except ConnectionLoss:
            return
