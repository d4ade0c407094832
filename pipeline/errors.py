"""What the pipeline tells people when it cannot go on.

A `PipelineError` is for people: its text says what is wrong and, where there is one, the cure; commands print it
without a traceback. Every subclass can be pickled, as errors travel from Spark's workers to its driver.
"""

from __future__ import annotations

from typing import Any

from sordini.protocol.types import TopicPartition


class PipelineError(Exception):
    """The pipeline cannot do what it was asked; the text is for the user."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the text and the fields: constructors of subclasses take other arguments than the text."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(cls: type[PipelineError], args: tuple[Any, ...], fields: dict[str, Any]) -> PipelineError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class BadSetting(PipelineError):
    """An option that is unknown, missing, contradicts another, or has a value that cannot be read."""


class Unreachable(PipelineError):
    """No broker answers: refused, silent, gone, or something else than a Kafka listener."""


class NotServed(PipelineError):
    """The broker knows no version of a request that this client speaks."""


class Unauthorized(PipelineError):
    """The broker refuses who we are, or what we ask for under this name."""


class Refused(PipelineError):
    """The cluster answered with an error that does not pass by itself, or did not pass in time."""

    def __init__(self, subject: str, code: int, reason: str) -> None:
        self.code = code
        """Apache Kafka's error code, see `sordini.protocol.errors.ErrorCode`."""
        super().__init__(f"{subject}: {reason}")


class UnknownTopic(PipelineError):
    """Topics, or partitions of a topic, that the cluster does not have."""

    def __init__(self, topics: list[str], reason: str = "") -> None:
        self.topics = topics
        names = ", ".join(f"'{topic}'" for topic in topics)
        plural = "is no topic" if len(topics) == 1 else "are no topics"
        super().__init__(reason or f"there {plural} {names} in the cluster")


class TopicRecreated(PipelineError):
    """A topic was deleted and made again: offsets of its former life mean nothing in the new one (KIP-516)."""

    def __init__(self, topic: str, expected_id: str, found_id: str) -> None:
        self.topic = topic
        self.expected_id = expected_id
        self.found_id = found_id
        super().__init__(
            f"topic '{topic}' was deleted and created again (its id was {expected_id} and is {found_id}): "
            "offsets noted earlier do not belong to it"
        )


class OffsetLost(PipelineError):
    """Records that were asked for are not in the log (any more); which way they were lost, `reason` says."""

    def __init__(
        self,
        partition: TopicPartition,
        asked: int,
        log_start_offset: int,
        log_end_offset: int,
        *,
        was_truncated: bool = False,
    ) -> None:
        """With `was_truncated` the leader's log has parted from what was read before `asked` (KIP-320)."""
        self.partition = partition
        self.asked = asked
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.was_truncated = was_truncated
        there = f"{partition} holds offsets {log_start_offset} to {log_end_offset} (exclusive)"
        super().__init__(f"{there}, {asked} was asked for: {self.reason}")

    @property
    def reason(self) -> str:
        """Whether retention passed the reader, or the log was cut or ends before it."""
        if self.was_truncated:
            return "an unclean election cut the log, and what was read before this offset is no longer in it"
        if self.asked < self.log_start_offset:
            count = self.log_start_offset - self.asked
            return f"{count} offsets were deleted by retention (or on request) before they were read"
        return "the log ends before it: the topic was made anew, or an unclean election cut its log"


class NoProgress(PipelineError):
    """A log gave nothing up to the time limit though more was to come: an open transaction, or an end beyond it."""

    def __init__(self, partition: TopicPartition, offset: int, seconds: float, problem: str) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(f"{partition} gave no records at offset {offset} for {seconds:g} s: {problem}")
