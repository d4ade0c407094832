"""What sessions of both stores have in common: an id, a state with listeners, and watches by path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.replication.ports import SessionState, Watch


class StatefulSession:
    """A session whose state changes on the loop."""

    def __init__(self, session_id: int, state: SessionState) -> None:
        self._session_id = session_id
        self._state = state
        self._listeners: list[Callable[[SessionState], None]] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def is_over(self) -> bool:
        return self._state in (SessionState.EXPIRED, SessionState.CLOSED)

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def _notify_listeners(self) -> None:
        """Through the loop's queue, so that a listener runs after the callers of earlier answers."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, self._state)


class PathWatches:
    """Watches of one kind by path, each notified once."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[Watch, None]] = {}

    def remember(self, path: str, watch: Watch | None) -> None:
        """Called when the read that sets a watch has succeeded; a watch that is set twice is one."""
        if watch is not None:
            self._by_path.setdefault(path, {})[watch] = None

    def take(self, path: str) -> dict[Watch, None]:
        """The watches on a path, in the order in which they were set; they are gone from here."""
        return self._by_path.pop(path, {})

    def clear(self) -> None:
        self._by_path.clear()
