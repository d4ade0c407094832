"""After which errors a request may succeed when it is sent again, and how long to wait before. Pure."""

from __future__ import annotations

from typing import Final

from sordini.client.errors import ClientError, Disconnected, NotABroker, Refused
from sordini.protocol.errors import ErrorCode
from sordini.system.named_tuple import NamedTuple

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


class RetryRules(NamedTuple):
    """What one client repeats, and for how long."""

    codes: frozenset[ErrorCode] = RETRIABLE
    errors: tuple[type[ClientError], ...] = (Disconnected,)
    """Beside Refused with one of the codes."""
    pause_ms: int = 100
    pause_ms_max: int = 1_000
    budget_s: float = float("inf")
    """Of one stretch of attempts without success; without one the caller bounds the time."""

    def is_temporary(self, error: ClientError) -> bool:
        """Whether another attempt may succeed."""
        if isinstance(error, self.errors):
            return not isinstance(error, NotABroker)
        return isinstance(error, Refused) and error.code in self.codes


class Attempts:
    """One stretch of attempts without success. Times are in seconds of any clock."""

    def __init__(self, rules: RetryRules, now_s: float) -> None:
        self._rules = rules
        self._backoff = Backoff(rules.pause_ms, rules.pause_ms_max)
        self.restart(now_s)

    def restart(self, now_s: float) -> None:
        """After a success: the whole time is available again."""
        self._deadline_s = now_s + self._rules.budget_s
        self._backoff.reset()

    def is_expired(self, now_s: float) -> bool:
        return now_s >= self._deadline_s

    def pause_s(self, now_s: float) -> float | None:
        """The pause before the next attempt, within the time that is left; None when there is none."""
        if self.is_expired(now_s):
            return None
        return min(self._backoff.next_ms() / 1000, self._deadline_s - now_s)
