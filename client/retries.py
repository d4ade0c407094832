"""After which errors a request may succeed when it is sent again, and how long to wait before. Pure."""

from __future__ import annotations

from typing import Final

from sordini.protocol.errors import ErrorCode

RETRIABLE: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors that pass by themselves, or once the leader, coordinator or controller is looked up again.

Users add those that pass in what they do, such as NOT_CONTROLLER for administration.
"""


class Backoff:
    """Pauses between attempts: each is twice as long as the one before, up to a maximum."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._next_ms = first_ms

    def next_ms(self) -> int:
        """The pause before the next attempt, in ms."""
        pause_ms = self._next_ms
        self._next_ms = min(max(2 * pause_ms, 1), self._max_ms)
        return pause_ms

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._next_ms = self._first_ms
