"""Carrying out the verdict of `retention`: the oldest segments of a log are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from sordini.storage.log_state import LogState
from sordini.storage.producer_snapshots import remove_snapshots
from sordini.storage.retention import RetentionContext, SegmentAge


def delete_due(log: LogState, now_ms: int, high_watermark: int) -> list[int]:
    """Delete the segments that retention says are due; their base offsets. Raises OSError."""
    if log.compaction.is_running:
        return []  # The cleaner reads the segments that it will replace.
    ages = SegmentAges(log)
    context = RetentionContext(log.topic_partition, now_ms, log.size, log.log_start_offset, high_watermark, log.config)
    count = log.log_dir.retention.due(ages, context)
    if not count:
        return []
    last, size = ages[count - 1], sum(ages[number].size for number in range(count))
    if last.is_active:
        log.roll(now_ms)
    # The log start offset moves first: no reader may be sent to a deleted segment.
    log.advance_log_start(last.end_offset)
    removed = log.segments.remove_first(count, now_ms + log.config.file_delete_delay_ms)
    remove_snapshots(log.log_dir.disk, log.directory, below=log.segments.all()[0].base)
    log.log_dir.on_segments_deleted(log.topic_partition, count, size)
    return removed


class SegmentAges(Sequence[SegmentAge]):
    """A log's current segments as retention sees them, oldest first.

    An age is computed at its first use, because that reads the segment's indexes. Raises OSError.
    """

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._segments = log.segments.all()
        self._known: dict[int, SegmentAge] = {}

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, number: int) -> SegmentAge: ...
    @overload
    def __getitem__(self, number: slice) -> list[SegmentAge]: ...
    def __getitem__(self, number: int | slice) -> SegmentAge | list[SegmentAge]:
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        at = range(len(self))[number]
        if at not in self._known:
            self._known[at] = self._age(at)
        return self._known[at]

    def _age(self, at: int) -> SegmentAge:
        log, segments = self._log, self._segments
        segment, is_active = segments[at], at + 1 == len(segments)
        return SegmentAge(
            log.log_end_offset if is_active else segments[at + 1].base,
            segment.size,
            segment.largest_timestamp(log.config.index_interval_bytes, log.log_dir.disk),
            is_active,
        )
