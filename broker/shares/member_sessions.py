"""The share sessions of members, and what ends with them: the connection that opened a session takes it with it.

A session that is closed releases what its member holds of the session's partitions, many of them in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.broker.network.ports import Peer
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.shares.machine.sessions import SessionKey, ShareSession, ShareSessions, Target
from sordini.broker.shares.share_partitions import SharePartitions

RELEASED_AT_ONCE: Final = 100
"""Partitions; of more, what is held is released in slices."""
RELEASE_STEPS: Final = 2
"""The cost of one."""


class MemberSessions:
    """All that are open on this broker."""

    def __init__(
        self,
        sessions: ShareSessions,
        partitions: SharePartitions,
        sessions_max: Callable[[], int],
        slices: SliceScheduler,
    ) -> None:
        self._sessions = sessions
        self._partitions = partitions
        self._sessions_max = sessions_max
        self._slices = slices
        self._denied: dict[SessionKey, frozenset[str]] = {}

    def find(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.find(key)

    def open(self, peer: Peer, key: SessionKey, targets: Mapping[Target, str]) -> ShareSession:
        """Open a session that ends with a connection; raises BrokerError SHARE_SESSION_LIMIT_REACHED."""
        session = self._sessions.open(key, targets, self._sessions_max())
        if peer.on_closed is None:
            peer.on_closed = {}

        def on_closed() -> None:
            if session.is_kept:
                self.end(session)

        peer.on_closed[key] = on_closed
        return session

    def next(self, key: SessionKey, epoch: int) -> ShareSession:
        """As `ShareSessions.next`."""
        return self._sessions.next(key, epoch)

    def change(self, session: ShareSession, added: Mapping[Target, str], forgotten: Iterable[Target]) -> None:
        """As `ShareSessions.change`."""
        self._sessions.change(session, added, forgotten)

    def end(self, session: ShareSession) -> None:
        """Close a session, and release what its member holds."""
        if not self._sessions.close(session):
            return
        releasing = self._released(session)
        if len(session.targets) <= RELEASED_AT_ONCE:
            for _ in releasing:
                pass
        else:
            self._slices.add(releasing, _ignore, _raise)

    def _released(self, session: ShareSession) -> Work[None]:
        group_id, member = session.key
        for target in session.targets:
            found = self._partitions.find(group_id, target)
            if found is not None:
                found.release(member)
            yield RELEASE_STEPS

    # Between the rule of authorization and the handler of one request, which follow each other at once.

    def deny(self, key: SessionKey, topics: frozenset[str]) -> None:
        """The request that is handled next may not read these topics."""
        self._denied[key] = topics

    def take_denied(self, key: SessionKey) -> frozenset[str]:
        return self._denied.pop(key, frozenset())


def _ignore(_result: None) -> None:
    """Nothing is left to do."""


def _raise(error: Exception) -> None:
    raise error
