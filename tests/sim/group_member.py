"""A member of a group whose coordinator assigns the partitions (KIP-848), pure: heartbeats, and what they bring.

    JOINING ──► STABLE ◄──► RECONCILING      an assignment without something owned: that is given up first
       ▲           │             │
       └─────── FENCED ◄─────────┘           its partitions are others' by now, and are abandoned
                                             LEAVING ──► LEFT; FAILED: the group takes no such member

The caller sends each request that `request` returns, one at a time, and hands in its response, or that none came. It
does what the returned events say, and reports when partitions are given up (`revoked`, `abandoned`). New partitions are
taken only when all that had to go is gone. A heartbeat says what has changed, and everything after an error: an answer
may have been lost. Commits carry `epoch`; an older one is accepted for partitions that the member had by then.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The process ends, and another one with the same instance id takes its place within the session."""
BACKOFF_MS: Final = 100
"""Before a heartbeat that follows an error."""

FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
COORDINATOR_LOST: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
AGAIN: Final = COORDINATOR_LOST | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT}

Owned = frozenset[tuple[TopicId, int]]
"""Partitions by the ids of their topics."""
NOTHING: Final[Owned] = frozenset()


class State(Enum):
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    FENCED = "fenced"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


class Revoke(NamedTuple):
    """Stop with these partitions, commit what is done, and call `revoked`."""

    partitions: Owned


class Assigned(NamedTuple):
    """These partitions are the member's from now on, beside those that it has."""

    partitions: Owned


class Lost(NamedTuple):
    """Stop with these partitions; commits are refused. Then call `abandoned`: the member joins again."""

    partitions: Owned


class CoordinatorLost(NamedTuple):
    """Find the coordinator again; the next heartbeat goes there."""


class Failed(NamedTuple):
    """The member does not join again."""

    code: ErrorCode
    message: str


Event = Revoke | Assigned | Lost | CoordinatorLost | Failed


class GroupMember:
    """One member. Times are of a monotonic clock, in milliseconds."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        topics: frozenset[str],
        rebalance_timeout_ms: int,
        now_ms: int,
        instance_id: str | None = None,
    ) -> None:
        """`member_id` is made by the client, once for its process (KIP-1082); a static member has an `instance_id`."""
        self.state = State.JOINING
        self.epoch = JOIN_EPOCH
        self.owned = NOTHING
        self.due_ms = now_ms
        """When the next heartbeat is due, unless one is under way."""
        self._group_id, self._member_id, self._instance_id = group_id, member_id, instance_id
        self._leave_epoch = LEAVE_EPOCH
        self._topics, self._rebalance_timeout_ms = topics, rebalance_timeout_ms
        self._assignment, self._revoking = NOTHING, NOTHING
        self._reported: Owned | None = None
        """What the coordinator was sent; None: everything is to be sent."""
        self._interval_ms = 0
        self._is_under_way = False

    # Heartbeats.

    def request(self, now_ms: int) -> ConsumerGroupHeartbeatRequest | None:
        """The heartbeat that is due now, to be sent by the caller."""
        if self._is_under_way or self.state in (State.FENCED, State.LEFT, State.FAILED) or now_ms < self.due_ms:
            return None
        self._is_under_way = True
        if self.state is State.LEAVING:
            return ConsumerGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self._member_id,
                instance_id=self._instance_id,
                member_epoch=self._leave_epoch,
            )
        is_full, has_changed = self._reported is None, self._reported != self.owned
        self._reported = self.owned
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            instance_id=self._instance_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=self._rebalance_timeout_ms if is_full else -1,
            subscribed_topic_names=sorted(self._topics) if is_full else None,
            topic_partitions=_rows(self.owned) if has_changed else None,
        )

    def response(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> list[Event]:
        """The answer to the heartbeat that is under way."""
        self._is_under_way = False
        if self.state is State.LEAVING:
            self.state = State.LEFT
            return []
        code = ErrorCode(response.error_code)
        if code:
            return self._refused(code, response.error_message or code.name, now_ms)
        self.epoch, self._interval_ms = response.member_epoch, response.heartbeat_interval_ms
        self.due_ms = now_ms + self._interval_ms
        if response.assignment is not None:
            self._assignment = frozenset(
                (TopicId(row.topic_id), partition)
                for row in response.assignment.topic_partitions
                for partition in row.partitions
            )
        if self.state is State.RECONCILING:
            return []  # The caller is still giving partitions up.
        return self._reconciled(now_ms)

    def no_response(self, now_ms: int) -> None:
        """No answer came to the heartbeat that is under way, and none will."""
        self._is_under_way = False
        self._reported = None
        self.due_ms = now_ms + BACKOFF_MS
        if self.state is State.LEAVING:
            self.state = State.LEFT  # The session ends by itself.

    # The caller's part.

    def revoked(self, now_ms: int) -> list[Event]:
        """What was to be revoked is given up, which the next heartbeat reports at once."""
        if self.state is not State.RECONCILING:
            return []  # It was fenced, or leaves.
        self.owned -= self._revoking
        return self._reconciled(now_ms)

    def abandoned(self, now_ms: int) -> None:
        """What was lost is given up: the member joins again, as one that owns nothing."""
        assert self.state is State.FENCED
        self.state, self.due_ms = State.JOINING, now_ms

    @property
    def is_known(self) -> bool:
        """Whether the coordinator has answered all that it was sent, and the member has nothing to give up."""
        return self.state is State.STABLE and not self._is_under_way and self._reported is not None

    def leave(self, now_ms: int, *, is_for_good: bool = True) -> None:
        """The member has stopped with all its partitions: one heartbeat more, if it has ever been answered.

        A static member that does not leave for good keeps them, for the next process with its instance id.
        """
        is_member = self.state in (State.STABLE, State.RECONCILING)
        self._leave_epoch = LEAVE_EPOCH if is_for_good or self._instance_id is None else STATIC_LEAVE_EPOCH
        self.state, self.due_ms = State.LEAVING if is_member else State.LEFT, now_ms
        self.owned = NOTHING

    # Steps.

    def _reconciled(self, now_ms: int) -> list[Event]:
        """Give up first, then take."""
        self._revoking = self.owned - self._assignment
        if self._revoking:
            self.state = State.RECONCILING
            return [Revoke(self._revoking)]
        added, self.owned = self._assignment - self.owned, self._assignment
        self.state = State.STABLE
        if self.owned != self._reported:
            self.due_ms = now_ms
        return [Assigned(added)] if added else []

    def _refused(self, code: ErrorCode, message: str, now_ms: int) -> list[Event]:
        self._reported = None
        self.due_ms = now_ms + BACKOFF_MS
        if code in AGAIN:
            return [CoordinatorLost()] if code in COORDINATOR_LOST else []
        lost = self.owned
        self.owned = self._assignment = self._revoking = NOTHING
        self.epoch = JOIN_EPOCH
        if code in FENCED:
            self.state = State.FENCED
            return [Lost(lost)]
        self.state = State.FAILED
        return [Lost(lost), Failed(code, message)]


def _rows(owned: Owned) -> list[TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]
