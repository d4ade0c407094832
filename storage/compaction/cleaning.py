"""Log compaction: one round over one partition (Apache Kafka's cleaner; KIP-58, KIP-354, KIP-534).

Two passes. The first reads the dirty part and builds the offset map: the newest record of each key
(`offset_map_builder`). The second reads everything below the offset that the map reached and copies the retained
records to new segments (`record_filter`, `segment_writing`), small neighbours into one (`grouping`). The log itself is
unchanged until its owner swaps the new segments in (`segment_replacement`). Nothing here is asynchronous or shared, so
that it can run in a child process (`child`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE
from sordini.storage.compaction.cleaned_transactions import CleanedTransactions, aborted_from
from sordini.storage.compaction.cleaner_stats import CleanerStats
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.grouping import group_segments
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.offset_map_builder import build_offset_map
from sordini.storage.compaction.record_filter import RecordFilter
from sordini.storage.compaction.segment_reading import SegmentSource, batches
from sordini.storage.compaction.segment_writing import CleanedFiles, CleanedSegment
from sordini.storage.compaction.task import CleanerClock, CleaningResult, CleaningTask, Replacement, SegmentSpan
from sordini.storage.compaction.throttler import Throttler
from sordini.storage.disk import Disk
from sordini.storage.producer_state import AbortedTransaction


def clean(disk: Disk, task: CleaningTask, clock: CleanerClock) -> CleaningResult:
    """One round: map, copy, sync. The new segments have `.cleaned` names; the old ones are unchanged.

    When the map is full, the log is cleaned up to there; the next round starts at that offset, at least one batch
    further. Unchanged segments are not replaced. Raises DamagedSegment and OSError, leaving no file.
    """
    if not task.segments:
        return CleaningResult((), task.first_dirty_offset, CleanerStats().figures())
    stats = CleanerStats()
    started = clock.monotonic()
    throttler = Throttler(clock, task.io_bytes_per_second)
    source = SegmentSource(disk, task.directory, max(task.io_buffer_bytes, HEADER_SIZE), throttler)
    aborted = aborted_from(disk, task.directory, task.segments[0].base)
    offsets = OffsetMap(max(int(task.map_bytes * task.map_load_factor), 1))
    cleaned_to = build_offset_map(source, task, CleanedTransactions(aborted), offsets, stats)
    stats.map_entries = len(offsets)
    mapped = clock.monotonic()
    stats.map_seconds = mapped - started
    record_filter = RecordFilter(task, cleaned_to, offsets, CleanedTransactions(aborted), stats)
    cleaned_files = CleanedFiles(disk, task, throttler)
    cleaned_files.clear_old()
    replacements: list[Replacement] = []
    is_done = False
    try:
        for group in group_segments(task, cleaned_to):
            replacement = _GroupCopy(source, cleaned_files, record_filter, stats).copy(group, aborted, cleaned_to)
            if replacement is not None:
                replacements.append(replacement)
        if replacements:
            disk.sync_directory(task.directory)
        is_done = True
    finally:
        if not is_done:
            cleaned_files.discard()
    stats.copy_seconds = clock.monotonic() - mapped
    return CleaningResult(tuple(replacements), cleaned_to, stats.figures())


class _GroupCopy:
    """Copies a group of segments into one."""

    def __init__(
        self, source: SegmentSource, cleaned_files: CleanedFiles, record_filter: RecordFilter, stats: CleanerStats
    ) -> None:
        self._source = source
        self._cleaned_files = cleaned_files
        self._record_filter = record_filter
        self._stats = stats
        self._is_changed = False

    def copy(
        self, group: Sequence[SegmentSpan], aborted: Sequence[AbortedTransaction], cleaned_to: int
    ) -> Replacement | None:
        """Write the segment that replaces a group; None when it would equal the existing one."""
        first, end = group[0].base, group[-1].end_offset
        self._record_filter.start_group(group)
        segment = CleanedSegment(self._cleaned_files, first)
        try:
            for span in group:
                self._copy_segment(segment, span)
            before = [one for one in aborted if first <= one.last_offset < end]
            # Below `cleaned_to` the filter has collected the retained ones; above, nothing was cleaned.
            after = self._record_filter.aborted + [one for one in before if one.last_offset >= cleaned_to]
            self._record_filter.aborted = []
            if len(group) == 1 and not self._is_changed and len(after) == len(before):
                self._cleaned_files.discard(first)
                return None
            after.sort(key=lambda transaction: transaction.last_offset)
            segment.finish(after, max(span.modified_ms for span in group))
        finally:
            segment.close()
        self._stats.bytes_written += segment.size
        return Replacement(first, segment.size, tuple(span.base for span in group))

    def _copy_segment(self, segment: CleanedSegment, span: SegmentSpan) -> None:
        self._record_filter.start_segment(span)
        self._stats.bytes_read += span.size
        for position, header, batch in batches(self._source, span):
            try:
                kept = self._record_filter.filter_batch(header, batch)
            except BrokerError as error:
                raise DamagedSegment(self._source.path(span), position, str(error)) from error
            if kept is None:
                self._is_changed = True
                continue
            self._is_changed = self._is_changed or kept.data is not batch
            segment.add(*kept)
