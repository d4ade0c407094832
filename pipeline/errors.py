"""The pipeline's exceptions.

The text of a `PipelineError` is for the user: it says what is wrong and, if possible, what to do; commands print it
without a traceback. Each can be pickled, since errors travel from Spark's workers to its driver.
"""

from __future__ import annotations

from typing import Final

from sordini.client.errors import ClientError
from sordini.protocol.types import TopicPartition

INSTALL: Final = "pip install '../sordini[spark]' (docs/installation.md)"
"""What helps where a package of the extra is missing."""


PipelineError = ClientError
"""The base of all of them, those of the client too: Unreachable, NotServed, Unauthorized and Refused."""


class BadSetting(PipelineError):
    """An option that is unknown, missing or invalid, or contradicts another."""


class UnknownTopic(PipelineError):
    """Topics, or partitions of a topic, that the cluster does not have."""

    def __init__(self, topics: list[str], reason: str = "") -> None:
        self.topics = topics
        names = ", ".join(f"'{topic}'" for topic in topics)
        plural = "is no topic" if len(topics) == 1 else "are no topics"
        super().__init__(reason or f"there {plural} {names} in the cluster")


class TopicRecreated(PipelineError):
    """A topic was deleted and created again: offsets of the old topic are invalid in the new one (KIP-516)."""

    def __init__(self, topic: str, expected_id: str, found_id: str) -> None:
        self.topic = topic
        self.expected_id = expected_id
        self.found_id = found_id
        super().__init__(
            f"topic '{topic}' was deleted and created again (its id was {expected_id} and is {found_id}): "
            "earlier offsets do not belong to it"
        )


class OffsetLost(PipelineError):
    """Requested records are not in the log (any more); `reason` says how they were lost."""

    def __init__(
        self,
        partition: TopicPartition,
        asked: int,
        log_start_offset: int,
        log_end_offset: int,
        *,
        was_truncated: bool = False,
    ) -> None:
        """With `was_truncated` the leader's log has diverged from what was read before `asked` (KIP-320)."""
        self.partition = partition
        self.asked = asked
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.was_truncated = was_truncated
        extent = f"{partition} has offsets {log_start_offset} to {log_end_offset} (exclusive)"
        super().__init__(f"{extent}, and {asked} was requested: {self.reason}")

    @property
    def reason(self) -> str:
        """How the records were lost: by retention, or by a log that was truncated or ends before the offset."""
        if self.was_truncated:
            return "an unclean election truncated the log, and records read before this offset are no longer in it"
        if self.asked < self.log_start_offset:
            count = self.log_start_offset - self.asked
            return f"{count} offsets were deleted by retention (or on request) before they were read"
        return "the log ends before it: the topic was created again, or an unclean election truncated its log"


class NoProgress(PipelineError):
    """No records within the time limit although more were expected: an open transaction, or an end beyond the log."""

    def __init__(self, partition: TopicPartition, offset: int, seconds: float, problem: str) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(f"no records from {partition} at offset {offset} for {seconds:g} s: {problem}")


class Fenced(PipelineError):
    """A transaction cannot be continued: a later writer has the transactional id, or the transaction took too long."""

    def __init__(self, transactional_id: str, timeout_ms: int, code: str) -> None:
        self.transactional_id = transactional_id
        super().__init__(
            f"transactional id '{transactional_id}' is not this writer's any more ({code}): another one has opened it, "
            f"or the transaction took longer than kafka.transaction.timeout.ms, {timeout_ms}"
        )
