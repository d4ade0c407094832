"""Which segments are due to be deleted. Pure: ages and sizes are arguments, and `segment_deletion` deletes.

A `DeletePolicy` says how many of the oldest segments may be deleted; of more policies the largest number counts. Never
deleted are segments with a record at or above the high watermark, and an active segment without records. An active
segment is rolled before it is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sordini.protocol.types import TopicPartition
from sordini.storage.log_config import UNLIMITED, LogConfig
from sordini.system.named_tuple import NamedTuple


class SegmentAge(NamedTuple):
    """The facts about one segment; `end_offset` is the first offset of the next."""

    end_offset: int
    size: int
    largest_timestamp: int
    """ms; the file's modification time for a segment without timestamps."""
    is_active: bool


class RetentionContext(NamedTuple):
    """The facts about the log, for a policy."""

    topic_partition: TopicPartition
    now_ms: int
    log_bytes: int
    log_start_offset: int
    high_watermark: int
    config: LogConfig


class DeletePolicy(Protocol):
    """A rule for deleting old segments. Stateless: the same arguments give the same result."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        """How many of the oldest segments are to be deleted.

        `segments` come oldest first, and an access may read an index: stop at the first segment that is kept.
        """


class ByTime:
    """Deletes segments whose youngest record is older than `retention.ms`."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        retention_ms = context.config.retention_ms
        if retention_ms == UNLIMITED:
            return 0
        return _run(segments, lambda segment: context.now_ms - segment.largest_timestamp > retention_ms)


class BySize:
    """Deletes segments without which the log still has `retention.bytes`."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        if context.config.retention_bytes == UNLIMITED:
            return 0
        excess = context.log_bytes - context.config.retention_bytes
        count = 0
        for segment in segments:
            # A segment that a cleaning left empty is deleted with the next one, not alone.
            if excess < max(segment.size, 1):
                break
            excess -= segment.size
            count += 1
        return count


class ByLogStart:
    """Deletes segments below the log start offset, which DeleteRecords moved: none of their records may be read."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        start = context.log_start_offset
        return _run(segments, lambda segment: segment.end_offset <= start and not segment.is_active)


BUILT_IN: dict[str, DeletePolicy] = {"time": ByTime(), "size": BySize()}
"""The policies behind a topic's `retention.ms` and `retention.bytes`."""

_ALWAYS = ByLogStart()


class Retention:
    """The policies in use. One that raises or returns an invalid number deletes nothing, and is reported once."""

    def __init__(
        self, policies: Sequence[DeletePolicy] = tuple(BUILT_IN.values()), report: Callable[[str], None] | None = None
    ) -> None:
        self._policies = tuple(policies)
        self._report = report
        self._reported: set[str] = set()

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        """How many of the oldest segments are to be deleted. Without `cleanup.policy=delete` no policy is used."""
        count = _ALWAYS.due(segments, context)
        if context.config.cleanup_delete:
            for policy in self._policies:
                count = max(count, self._count_of(policy, segments, context))
        return _within_bounds(count, segments, context.high_watermark)

    def _count_of(self, policy: DeletePolicy, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        name = type(policy).__name__
        try:
            count = policy.due(segments, context)
        except OSError:
            raise  # Not the policy's error: a segment could not be read.
        except Exception as error:  # noqa: BLE001 - third-party code, which must not stop the broker.
            self._report_once(name, f"raised {error!r}")
            return 0
        if type(count) is not int or not 0 <= count <= len(segments):
            self._report_once(name, f"returned {count!r} for {len(segments)} segments")
            return 0
        return count

    def _report_once(self, name: str, oddity: str) -> None:
        if name not in self._reported and self._report is not None:
            self._reported.add(name)
            self._report(f"delete policy {name} {oddity}: it deletes nothing there")


def _run(segments: Sequence[SegmentAge], is_due: Callable[[SegmentAge], bool]) -> int:
    """The number of oldest segments before the first that is kept."""
    count = 0
    for segment in segments:
        if not is_due(segment):
            break
        count += 1
    return count


def _within_bounds(count: int, segments: Sequence[SegmentAge], high_watermark: int) -> int:
    for number in range(count):
        segment = segments[number]
        if segment.end_offset > high_watermark or (segment.is_active and segment.size == 0):
            return number
    return count
