"""Share sessions (KIP-932): which partitions a member fetches, kept between its requests. Pure.

A member has one session at most on a broker, by its group and its name. As at Apache Kafka, a session that is opened
again takes the place of the former one, whose records stay held; one that is closed releases them. Sessions are
bounded, and so are the partitions of all together; none is displaced, as its records are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

OPEN: Final = 0
CLOSE: Final = -1
EPOCH_MAX: Final = 2**31 - 1
PARTITIONS_MAX: Final = 200_000
"""Of all sessions together, about 300 bytes each."""


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member: str


class Target(NamedTuple):
    """A partition of a session."""

    topic_id: TopicId
    partition: int


class Targeted:
    """What a session knows of one of its partitions."""

    __slots__ = ("is_news", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        """Empty while no topic of that id is known."""
        self.is_news = True
        """Whether the response has a row even without records: the partition is new, or its last row was an error."""


class ShareSession:
    """The partitions of one member."""

    __slots__ = ("epoch", "is_kept", "key", "targets")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = 1
        """Of the next request."""
        self.is_kept = True
        """False once it is closed or replaced."""
        self.targets: dict[Target, Targeted] = {}

    def rotate(self, served: Target) -> None:
        """Move a partition that was served behind the others, so that a full response starves none."""
        if (known := self.targets.pop(served, None)) is not None:
            self.targets[served] = known


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        self._partitions_max = partitions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._groups: dict[str, int] = {}
        """How many sessions each group has."""
        self.partitions = 0
        """Of all of them."""

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of that group has a session."""
        return group_id in self._groups

    def find(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def open(self, key: SessionKey, targets: Mapping[Target, str], sessions_max: int) -> ShareSession:
        """Open a session of these partitions, with their topics' names.

        Raises BrokerError SHARE_SESSION_LIMIT_REACHED.
        """
        former = self._sessions.get(key)
        partitions = self.partitions - (0 if former is None else len(former.targets)) + len(targets)
        if (former is None and len(self._sessions) >= sessions_max) or partitions > self._partitions_max:
            raise BrokerError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"{len(self._sessions)} share sessions are open")
        if former is not None:
            self.close(former)
        session = self._sessions[key] = ShareSession(key)
        session.targets = {target: Targeted(topic) for target, topic in targets.items()}
        self.partitions = partitions
        self._groups[key.group_id] = self._groups.get(key.group_id, 0) + 1
        return session

    def next(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session that a request continues or closes.

        Raises BrokerError SHARE_SESSION_NOT_FOUND and INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise BrokerError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"{key.member} has no share session")
        if epoch == CLOSE:
            return session
        if epoch != session.epoch:
            raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"epoch {session.epoch} is next, not {epoch}")
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def change(self, session: ShareSession, added: Mapping[Target, str], forgotten: Iterable[Target]) -> None:
        """Partitions come and go; raises BrokerError SHARE_SESSION_LIMIT_REACHED for too many."""
        if self.partitions + len(added.keys() - session.targets.keys()) > self._partitions_max:
            raise BrokerError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, "share sessions have too many partitions")
        before = len(session.targets)
        for target, topic in added.items():
            if target not in session.targets:
                session.targets[target] = Targeted(topic)
        for target in forgotten:
            session.targets.pop(target, None)
        self.partitions += len(session.targets) - before

    def close(self, session: ShareSession) -> bool:
        """Forget it; False when that has been done."""
        if not session.is_kept:
            return False
        session.is_kept = False
        del self._sessions[session.key]
        self.partitions -= len(session.targets)
        group_id = session.key.group_id
        self._groups[group_id] -= 1
        if not self._groups[group_id]:
            del self._groups[group_id]
        return True
