"""Retries with growing pauses until a time is over: one `RetryTimer` is one stretch of attempts without success."""

from __future__ import annotations

from typing import Final

from sordini.client import retries
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client.settings import Limits
from sordini.pipeline.source.client.transport import ClientPorts
from sordini.protocol.errors import ErrorCode

RETRIABLE: Final = retries.RETRIABLE | {
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors after which the same request may succeed, once the metadata is refreshed.

An unknown topic is among them: a broker that has just started does not know all topics, and a topic that was just
created is not known to all brokers. `Topics` decides when a topic has been unknown for too long.
"""


class RetryTimer:
    """When to stop retrying."""

    def __init__(self, ports: ClientPorts, limits: Limits, ms: int) -> None:
        """It expires after `ms`; each pause is twice as long as the one before, within `limits`."""
        self._ports = ports
        self._backoff = retries.Backoff(limits.backoff_ms, limits.backoff_ms_max)
        self.seconds = ms / 1000
        self.problem = "nothing was answered"
        """What the last attempt failed with."""
        self.restart()

    def restart(self) -> None:
        """After a success: the whole time is available again."""
        self._deadline = self._ports.monotonic() + self.seconds
        self._backoff.reset()

    @property
    def is_expired(self) -> bool:
        return self._ports.monotonic() >= self._deadline

    def pause(self, problem: PipelineError | str) -> bool:
        """Note what went wrong and pause; False, at once, when there is no time for another attempt."""
        self.problem = str(problem)
        left_ms = (self._deadline - self._ports.monotonic()) * 1000
        if left_ms <= 0:
            return False
        self._ports.sleep(min(self._backoff.next_ms(), left_ms) / 1000)
        return True
