"""The follower's side of an incremental fetch session (KIP-227): name each partition once, then only what changed.

Pure. `add` and `remove` keep the partitions to fetch; `next_request` returns those that the leader does not know yet.
The response, an error or a lost connection is reported back, and moves the session on:

    id 0, epoch 0      full request; the leader may open a session
    id n, epoch k > 0  incremental: what changed since epoch k - 1
    id n, epoch 0      full request; the leader drops session n and may open another
    id n, epoch -1     closes the session

A session names all topics by id, or all by name: while one partition's topic has no id, all are named by name, in
version 12 at most (KIP-516).
"""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, LeaderEpoch, Offset, TopicId
from sordini.system.named_tuple import NamedTuple

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
"""The two ends of a session disagree: the next request is a full one."""


class TopicIdPartition(NamedTuple):
    """A partition with both names of its topic."""

    topic: str
    topic_id: TopicId
    partition: int


class FetchState(NamedTuple):
    """What is requested of one partition. Epochs are -1 where they are unknown."""

    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    last_fetched_epoch: int
    log_start_offset: int


class SessionRequest(NamedTuple):
    """One request of a session."""

    version: int
    session_id: int
    epoch: int
    to_send: list[tuple[TopicIdPartition, FetchState]]
    to_forget: list[TopicIdPartition]


class FetchSessionHandler:
    """The partitions fetched from one leader, and which of them the leader knows."""

    __slots__ = (
        "_changed",
        "_epoch",
        "_partitions",
        "_sent",
        "_session_id",
        "_version",
        "_version_max",
        "_without_id_count",
    )

    def __init__(self, version_max: int) -> None:
        """`version_max` is the version of Fetch under the brokers' protocol setting."""
        self._version_max = version_max
        self._version = version_max
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._partitions: dict[TopicIdPartition, FetchState] = {}
        self._sent: dict[TopicIdPartition, FetchState] = {}
        self._changed: dict[TopicIdPartition, None] = {}
        self._without_id_count = 0

    def __len__(self) -> int:
        """How many partitions are fetched."""
        return len(self._partitions)

    @property
    def is_open(self) -> bool:
        """Whether the leader may have a session for this follower."""
        return self._session_id != NO_SESSION

    def add(self, partition: TopicIdPartition, state: FetchState) -> None:
        """Fetch this partition with this state."""
        if self._partitions.get(partition) is None and partition.topic_id == NO_TOPIC_ID:
            self._without_id_count += 1
        self._partitions[partition] = state
        self._changed[partition] = None

    def remove(self, partition: TopicIdPartition) -> None:
        """Stop fetching this partition, if it is fetched."""
        if self._partitions.pop(partition, None) is not None:
            if partition.topic_id == NO_TOPIC_ID:
                self._without_id_count -= 1
            self._changed[partition] = None

    def next_request(self) -> SessionRequest:
        """The next request; its content is taken as known to the leader from here on."""
        version = min(self._version_max, NAMES_VERSION_MAX) if self._without_id_count else self._version_max
        if version != self._version:
            self._version = version
            self._epoch = FIRST_EPOCH
        if self._epoch == FIRST_EPOCH:
            self._changed.clear()
            self._sent = dict(self._partitions)
            return SessionRequest(version, self._session_id, FIRST_EPOCH, list(self._partitions.items()), [])
        to_send, to_forget = [], []
        sent = self._sent
        for partition in self._changed:
            state = self._partitions.get(partition)
            if state is None:
                if sent.pop(partition, None) is not None:
                    to_forget.append(partition)
            elif sent.get(partition) != state:
                sent[partition] = state
                to_send.append((partition, state))
        self._changed.clear()
        return SessionRequest(version, self._session_id, self._epoch, to_send, to_forget)

    def on_response(self, session_id: int, partitions_count: int) -> bool:
        """The response to the last request had this session id (0 for none) and this many partitions.

        False when a full request's response lacks partitions. What it has can be used, but the leader and the follower
        disagree on the partitions, so the next request is a full one, too.
        """
        self._session_id = session_id
        if self._epoch == FIRST_EPOCH and partitions_count < len(self._sent):
            return False
        if session_id == NO_SESSION:
            self._epoch = FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def continued(self, partition: TopicIdPartition, state: FetchState, epoch: int) -> None:
        """Incremental requests of this partition were sent since the last one; this is what the newest one says."""
        self._sent[partition] = state
        if partition in self._partitions:  # Else it was removed meanwhile, and is forgotten next.
            self._partitions[partition] = state
        self._epoch = epoch

    def move_to_end(self, partition: TopicIdPartition) -> None:
        """Fetch this partition last: it got records, and without a session the leader serves in request order."""
        if self._session_id == NO_SESSION:
            state = self._partitions.pop(partition, None)
            if state is not None:
                self._partitions[partition] = state

    def on_error(self, code: int) -> None:
        """The last request was refused as a whole: the next one is a full one."""
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH

    def connection_lost(self) -> None:
        """The outcome of the last request is unknown: the next one is a full one.

        It carries the old session's id, so that the leader drops that session at once.
        """
        self._epoch = FIRST_EPOCH

    def close(self) -> SessionRequest:
        """The request that closes the session. The next one is a full one."""
        session_id, self._session_id, self._epoch = self._session_id, NO_SESSION, FIRST_EPOCH
        return SessionRequest(self._version, session_id, LAST_EPOCH, [], [])
