"""A fetch session as the one who asks keeps it (KIP-227): name every partition once, then only what changed.

Pure. `want` and `forget` say what is wanted now; `next_request` says what of it the leader has not been told, and
counts it as told. An answer, a refusal or a broken connection is reported back, and moves the session on:

    number 0, epoch 0      everything is named, and the leader may open a session
    number n, epoch k > 0  what changed since epoch k - 1 is named
    number n, epoch 0      everything is named again; the leader drops session n and may open another
    number n, epoch -1     the session is over

A session lives on one way of naming topics. As long as a single partition's topic has no id, all are named by name,
in version 12 at most (KIP-516).
"""

from __future__ import annotations

from typing import NamedTuple

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, LeaderEpoch, Offset, TopicId

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = -1
EPOCH_MAX = 2**31 - 1
NAMES_VERSION_MAX = 12
"""The last version that names topics by their names."""

FETCH_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""A session is not, or no longer, what we think: begin anew."""


class TopicIdPartition(NamedTuple):
    """A partition as requests name it."""

    topic: str
    topic_id: TopicId
    partition: int


class FetchState(NamedTuple):
    """What is asked of one partition. Its epochs are -1 where they are unknown."""

    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    last_fetched_epoch: int
    log_start_offset: int


class SessionRequest(NamedTuple):
    """One request: the session it belongs to, and what the leader must be told."""

    version: int
    number: int
    epoch: int
    wanted: list[tuple[TopicIdPartition, FetchState]]
    forgotten: list[TopicIdPartition]


class FetchSessionHandler:
    """What is wanted of one leader, and how much of it the leader knows."""

    __slots__ = ("_changed", "_epoch", "_nameless_count", "_number", "_told", "_version", "_version_max", "_wanted")

    def __init__(self, version_max: int) -> None:
        """`version_max` is the version of Fetch that the brokers' protocol setting asks for."""
        self._version_max = version_max
        self._version = version_max
        self._number = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._wanted: dict[TopicIdPartition, FetchState] = {}
        self._told: dict[TopicIdPartition, FetchState] = {}
        self._changed: dict[TopicIdPartition, None] = {}
        self._nameless_count = 0

    def __len__(self) -> int:
        """How many partitions are wanted."""
        return len(self._wanted)

    @property
    def is_open(self) -> bool:
        """Whether the leader may be keeping a session for us."""
        return self._number != NO_SESSION

    def want(self, place: TopicIdPartition, wish: FetchState) -> None:
        """Fetch this partition, and from here."""
        if self._wanted.get(place) is None and place.topic_id == NO_TOPIC_ID:
            self._nameless_count += 1
        self._wanted[place] = wish
        self._changed[place] = None

    def forget(self, place: TopicIdPartition) -> None:
        """Fetch this partition no longer; harmless for one that is not wanted."""
        if self._wanted.pop(place, None) is not None:
            if place.topic_id == NO_TOPIC_ID:
                self._nameless_count -= 1
            self._changed[place] = None

    def next_request(self) -> SessionRequest:
        """What to ask now; from here on it counts as told."""
        version = min(self._version_max, NAMES_VERSION_MAX) if self._nameless_count else self._version_max
        if version != self._version:
            self._version = version
            self._epoch = FIRST_EPOCH
        if self._epoch == FIRST_EPOCH:
            self._changed.clear()
            self._told = dict(self._wanted)
            return SessionRequest(version, self._number, FIRST_EPOCH, list(self._wanted.items()), [])
        wanted, forgotten = [], []
        told = self._told
        for place in self._changed:
            wish = self._wanted.get(place)
            if wish is None:
                if told.pop(place, None) is not None:
                    forgotten.append(place)
            elif told.get(place) != wish:
                told[place] = wish
                wanted.append((place, wish))
        self._changed.clear()
        return SessionRequest(version, self._number, self._epoch, wanted, forgotten)

    def answered(self, number: int, served_count: int) -> bool:
        """The last request was answered for so many partitions; `number` is the session's from now on, 0 for none.

        False when everything was named and the answer does not have everything: what is in it can be taken, but the
        leader and we do not speak of the same partitions, so all are named again.
        """
        self._number = number
        if self._epoch == FIRST_EPOCH and served_count < len(self._told):
            return False
        if number == NO_SESSION:
            self._epoch = FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def give_way(self, place: TopicIdPartition) -> None:
        """It got records: where everything is named each time, others come before it."""
        if self._number == NO_SESSION:
            wish = self._wanted.pop(place, None)
            if wish is not None:
                self._wanted[place] = wish

    def refused(self, code: int) -> None:
        """The whole request was refused: everything is named in the next one."""
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._number = NO_SESSION
        self._epoch = FIRST_EPOCH

    def lost(self) -> None:
        """Whether the last request was carried out is not known: the next one names everything.

        It names the old session, too, so that the leader need not keep that one until it is stale.
        """
        self._epoch = FIRST_EPOCH

    def closing(self) -> SessionRequest:
        """The request that ends the session, without wanting anything; the next one begins anew."""
        number, self._number, self._epoch = self._number, NO_SESSION, FIRST_EPOCH
        return SessionRequest(self._version, number, LAST_EPOCH, [], [])
