"""Which segments are due to be deleted. Pure: ages and sizes are arguments, the log carries the verdict out.

A `DeletePolicy` looks at the segments and says how many of the oldest may go; of several policies the one that lets
the most go decides. Whatever they say, only a run of oldest segments goes, never one that holds a record at or above
the high watermark, and never an active segment without records. Deleting the active one means rolling it first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sordini.protocol.types import TopicPartition
from sordini.storage.log_config import UNLIMITED, LogConfig


class SegmentAge(NamedTuple):
    """What decides about one segment; `end_offset` is the first offset of the next."""

    end_offset: int
    size: int
    largest_timestamp: int
    """ms; the file's modification time for a segment without timestamps."""
    is_active: bool


class RetentionContext(NamedTuple):
    """What a policy is told beside the segments."""

    topic_partition: TopicPartition
    now_ms: int
    log_bytes: int
    log_start_offset: int
    high_watermark: int
    config: LogConfig


class DeletePolicy(Protocol):
    """A rule by which old segments go. The same questions must get the same answers: it keeps nothing."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        """How many of the oldest segments are to be deleted.

        `segments` come oldest first, and each is looked at only when it is asked for: stop at the first that stays.
        """


class ByTime:
    """Segments go whose youngest record is older than `retention.ms`."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        retention_ms = context.config.retention_ms
        if retention_ms == UNLIMITED:
            return 0
        return _run(segments, lambda segment: context.now_ms - segment.largest_timestamp > retention_ms)


class BySize:
    """Segments go without which the log still has `retention.bytes`."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        if context.config.retention_bytes == UNLIMITED:
            return 0
        excess = context.log_bytes - context.config.retention_bytes
        count = 0
        for segment in segments:
            # A segment that a cleaning left empty goes with the next one, not by itself.
            if excess < max(segment.size, 1):
                break
            excess -= segment.size
            count += 1
        return count


class ByLogStart:
    """Segments go below the log's start, which DeleteRecords moved: nothing in them may be read."""

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        start = context.log_start_offset
        return _run(segments, lambda segment: segment.end_offset <= start and not segment.is_active)


BUILT_IN: dict[str, DeletePolicy] = {"time": ByTime(), "size": BySize()}
"""The policies that a topic's `retention.ms` and `retention.bytes` speak to."""

_ALWAYS = ByLogStart()


class Retention:
    """The policies in force. One that raises or answers nonsense deletes nothing, and is told of once."""

    def __init__(
        self, policies: Sequence[DeletePolicy] = tuple(BUILT_IN.values()), report: Callable[[str], None] | None = None
    ) -> None:
        self._policies = tuple(policies)
        self._report = report
        self._told: set[str] = set()

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        """How many of the oldest segments are to be deleted. `cleanup.policy` without delete asks no policy."""
        count = _ALWAYS.due(segments, context)
        if context.config.cleanup_delete:
            for policy in self._policies:
                count = max(count, self._asked(policy, segments, context))
        return _within_bounds(count, segments, context.high_watermark)

    def _asked(self, policy: DeletePolicy, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        name = type(policy).__name__
        try:
            count = policy.due(segments, context)
        except OSError:
            raise  # Not the policy's: a segment could not be looked at.
        except Exception as error:  # noqa: BLE001 - somebody else's code, which must not end the broker.
            self._tell(name, f"raised {error!r}")
            return 0
        if type(count) is not int or not 0 <= count <= len(segments):
            self._tell(name, f"answered {count!r} for {len(segments)} segments")
            return 0
        return count

    def _tell(self, name: str, what: str) -> None:
        if name not in self._told and self._report is not None:
            self._told.add(name)
            self._report(f"delete policy {name} {what}: it deletes nothing where it does so")


def _run(segments: Sequence[SegmentAge], goes: Callable[[SegmentAge], bool]) -> int:
    """How many of the oldest segments there are before the first that stays."""
    count = 0
    for segment in segments:
        if not goes(segment):
            break
        count += 1
    return count


def _within_bounds(count: int, segments: Sequence[SegmentAge], high_watermark: int) -> int:
    for number in range(count):
        segment = segments[number]
        if segment.end_offset > high_watermark or (segment.is_active and segment.size == 0):
            return number
    return count
