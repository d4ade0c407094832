"""Trying again, with growing pauses, until a time is over: one `Patience` is one stretch without success."""

from __future__ import annotations

from typing import Final

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client.settings import Limits
from sordini.pipeline.source.client.transport import Outside
from sordini.protocol.errors import ErrorCode

PASSING: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
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
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors after which the same may succeed, once it is known anew who leads what.

An unknown topic is among them, as a broker that has just started, or a topic that has, is unknown for a moment;
`SourceTopics` decides when it has been one for too long.
"""


class Patience:
    """When to stop trying."""

    def __init__(self, outside: Outside, limits: Limits, ms: int) -> None:
        """It is over after `ms`; each pause is twice as long as the one before, within `limits`."""
        self._outside = outside
        self._limits = limits
        self.seconds = ms / 1000
        self.problem = "nothing was answered"
        """What the last attempt failed with."""
        self.renew()

    def renew(self) -> None:
        """Something was achieved: the time begins anew."""
        self._deadline = self._outside.monotonic() + self.seconds
        self._pause_ms = self._limits.backoff_ms

    @property
    def is_over(self) -> bool:
        return self._outside.monotonic() >= self._deadline

    def wait(self, problem: PipelineError | str) -> bool:
        """Note what went wrong and pause; False, at once, when there is no time for another attempt."""
        self.problem = str(problem)
        left_ms = (self._deadline - self._outside.monotonic()) * 1000
        if left_ms <= 0:
            return False
        self._outside.pause(min(self._pause_ms, left_ms) / 1000)
        self._pause_ms = min(max(2 * self._pause_ms, 1), self._limits.backoff_ms_max)
        return True
