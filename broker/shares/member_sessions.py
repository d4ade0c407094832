"""The share sessions of members, and what ends with them: the connection that opened a session takes it with it.

A session that is closed releases what its member holds of the session's partitions, many of them in slices. With the
last session of a group its share partitions here are to be loaded again, as at Apache Kafka: from then on the group may
be deleted, and its offsets may be set, which no leader is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from sordini.broker.network.ports import Peer
from sordini.broker.requests.slice_scheduler import SliceExhausted, SliceScheduler, Work, first_slice
from sordini.broker.shares.machine.sessions import SessionKey, ShareSession, ShareSessions, Target
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId

RELEASE_STEPS: Final = 2
"""The cost of a partition; what is held of it costs one for each part."""


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
        self._peers: dict[SessionKey, Peer] = {}
        """On whose connection each session was opened."""
        self._refused: dict[SessionKey, Mapping[TopicId, ErrorCode]] = {}

    def find(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.find(key)

    def open(self, peer: Peer, key: SessionKey, targets: Mapping[Target, str]) -> ShareSession:
        """Open a session that ends with a connection; raises BrokerError SHARE_SESSION_LIMIT_REACHED."""
        session = self._sessions.open(key, targets, self._sessions_max())
        self._disconnect(key)
        self._peers[key] = peer
        if peer.on_closed is None:
            peer.on_closed = {}

        peer.on_closed[key] = partial(self.end, session)
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
        self._disconnect(session.key)
        releasing = self._released(session)
        try:
            first_slice(releasing)
        except SliceExhausted:
            self._slices.add(releasing, _ignore, _raise)

    def _disconnect(self, key: SessionKey) -> None:
        """The end of a connection does not end that session any more."""
        peer = self._peers.pop(key, None)
        if peer is not None and peer.on_closed is not None:
            peer.on_closed.pop(key, None)

    def _released(self, session: ShareSession) -> Work[None]:
        group_id, member = session.key
        for target in session.targets:
            found = self._partitions.find(group_id, target)
            yield RELEASE_STEPS + (0 if found is None else found.release(member))
        if not self._sessions.has_group(group_id):
            self._partitions.retire(group_id)

    # Between the rule of authorization and the handler of one request, which follow each other at once.

    def refuse(self, key: SessionKey, topics: Mapping[TopicId, ErrorCode]) -> None:
        """The request that is handled next may not read these topics, for these reasons."""
        self._refused[key] = topics

    def take_refused(self, key: SessionKey) -> Mapping[TopicId, ErrorCode]:
        return self._refused.pop(key, {})


def _ignore(_result: None) -> None:
    """Nothing is left to do."""


def _raise(error: Exception) -> None:
    raise error
