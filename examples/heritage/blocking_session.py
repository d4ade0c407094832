"""Sessions with ZooKeeper as the documents' clients use them.

One `changed` stands for all watches of a session and for its state: the caller reads again whatever it depends on. A
session is never replaced by another one; its calls raise SessionOver and ConnectionLost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import NodeExistsError, NoNodeError

from examples.heritage.zookeeper_link import ZooKeeperLink

if TYPE_CHECKING:
    from kazoo.protocol.states import ZnodeStat

_MARGIN: Final = 0.25


class BlockingStore:
    """An ensemble, named as in `zookeeper.connect`."""

    def __init__(self, connect: str, *, session_timeout_ms: int, connection_timeout_ms: int) -> None:
        self._connect = connect
        self._session_timeout_s = session_timeout_ms / 1000
        self._connection_timeout_s = connection_timeout_ms / 1000
        self._sessions: list[BlockingSession] = []

    def open_session(self, changed: Callable[[], None]) -> BlockingSession:
        """A connected session; `changed` is called on other threads. Raises ZooKeeperError."""
        link = ZooKeeperLink(self._connect, self._session_timeout_s, self._connection_timeout_s, changed)
        opened = BlockingSession(link, changed)
        for one in self._sessions:
            if not one.is_open:
                one.close()
        self._sessions = [*(one for one in self._sessions if one.is_open), opened]
        return opened

    def close(self) -> None:
        """End all sessions; their ephemeral nodes are gone when this returns, if ZooKeeper answers."""
        for one in self._sessions:
            one.close()


class BlockingSession:
    """One session. With `watch`, `changed` is called at the next change of what was read."""

    def __init__(self, link: ZooKeeperLink, changed: Callable[[], None]) -> None:
        self._link = link
        self._changed = changed
        self._watch = self._fired  # One callable: it is set once on each path.

    @property
    def is_open(self) -> bool:
        """Whether it has neither expired nor been closed, as far as this client knows."""
        return self._link.is_open

    @property
    def lease_s(self) -> float:
        """For how many seconds from now on the session certainly lasts, and no one else owns what it owns; or 0.

        It ends a quarter of the session timeout early: for clocks of other speeds, and for a server that extended the
        session and failed before the others knew.
        """
        return self._link.left_s(_MARGIN)

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes, ZnodeStat] | None:
        """A node's data; None without the node, whose creation is watched then."""
        found = self._read("get", path, watch, None)
        return None if found is None else (found[0] or b"", found[1])

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        """The sorted names of a node's children; none without the node, whose creation is watched then."""
        return sorted(self._read("get_children", path, watch, ()))

    def owns(self, path: str) -> bool:
        """Whether the node exists and ends with this session."""
        return self._owner(path, watch=False) == self._link.session_id

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        """Make a node that ends with this session, and its parents. False: another session has it, watched."""
        while True:
            try:
                self._link.call("create", path, data, ephemeral=True, makepath=True)
            except NodeExistsError:
                owner = self._owner(path, watch=True)
                if owner is not None:  # Otherwise it has just been deleted, which the watch would not report.
                    return owner == self._link.session_id
            else:
                return True

    def put(self, path: str, data: bytes) -> None:
        """Set a persistent node, or make it."""
        try:
            self._link.call("set", path, data)
        except NoNodeError:
            self._link.call("create", path, data, makepath=True)

    def delete_own(self, path: str) -> None:
        """Delete a node if it ends with this session."""
        if self.owns(path):
            self._link.call("delete", path)

    def close(self) -> None:
        """End the session and its ephemeral nodes; without an answer of ZooKeeper they end with its timeout."""
        self._link.close()

    def _fired(self, _event: object) -> None:
        self._changed()

    def _owner(self, path: str, *, watch: bool) -> int | None:
        """The session that a node ends with; None without the node."""
        stat = self._link.call("exists", path, watch=self._watch if watch else None)
        return None if stat is None else int(stat.ephemeralOwner)

    def _read(self, call: str, path: str, watch: bool, missing: Any) -> Any:  # noqa: FBT001 - passed on.
        fired = self._watch if watch else None
        try:
            return self._link.call(call, path, watch=fired)
        except NoNodeError:
            if watch and self._link.call("exists", path, watch=fired) is not None:
                return self._read(call, path, watch, missing)
            return missing
