"""The watches of a session with ZooKeeper, behind one callable for each kind.

kazoo keeps a set of callbacks for each path. It gets one callable for all watches of a kind, so that its set does not
grow while a path is read again and again; which watches that callable stands for is kept here.
"""

from __future__ import annotations

from collections.abc import Callable

from kazoo.protocol.states import WatchedEvent

from sordini.coordination_store.stateful_session import PathWatches


class KazooWatches(PathWatches):
    """Watches of one kind: on the data and the existence of nodes, or on their children."""

    def __init__(self, notify: Callable[[WatchedEvent, PathWatches], None]) -> None:
        super().__init__()
        self._notify = notify

    def fired(self, event: WatchedEvent) -> None:
        """What kazoo calls."""
        self._notify(event, self)
