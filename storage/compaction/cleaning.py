"""Log compaction: one round over one partition (Apache Kafka's cleaner; KIP-58, KIP-354, KIP-534).

Two walks. The first goes over the dirty part and notes which batch holds the newest record of each key (`mapping`); the
second goes over everything below the offset that was reached and writes what stays into new segments (`sieve`,
`writing`), several small ones into one (`grouping`). The log itself is not touched: its owner swaps the finished
segments in. Nothing here waits or is shared, so that it can run in a process of its own (`child`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE
from sordini.storage.compaction.cleaned_transactions import Transactions, aborted_from
from sordini.storage.compaction.cleaner_stats import Tally
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.grouping import grouped
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.offset_map_builder import map_dirty
from sordini.storage.compaction.record_filter import Sieve
from sordini.storage.compaction.segment_reading import Source, batches
from sordini.storage.compaction.segment_writing import NewSegment, Workshop
from sordini.storage.compaction.task import CleaningResult, CleaningTask, Replacement, SegmentSpan, Throttle
from sordini.storage.compaction.throttler import Pace
from sordini.storage.disk import Disk
from sordini.storage.producer_state import AbortedTransaction


def clean(disk: Disk, task: CleaningTask, clock: Throttle) -> CleaningResult:
    """Do one round: map, copy, sync. The new segments wait beside the old ones, which are as they were.

    A log that the map cannot hold is cleaned as far as it could; the next round goes on from there, at least one batch
    later. Segments of which everything stays are not replaced. Raises DamagedSegment and OSError, leaving no file.
    """
    if not task.segments:
        return CleaningResult((), task.first_dirty_offset, Tally().figures())
    tally = Tally()
    started = clock.monotonic()
    pace = Pace(clock, task.io_bytes_per_second)
    source = Source(disk, task.directory, max(task.io_buffer_bytes, HEADER_SIZE), pace)
    aborted = aborted_from(disk, task.directory, task.segments[0].base)
    offsets = OffsetMap(max(int(task.map_bytes * task.map_load_factor), 1))
    cleaned_to = map_dirty(source, task, Transactions(aborted), offsets, tally)
    tally.map_entries = len(offsets)
    mapped = clock.monotonic()
    tally.map_seconds = mapped - started
    sieve = Sieve(task, cleaned_to, offsets, Transactions(aborted), tally)
    workshop = Workshop(disk, task, pace)
    workshop.clear_old()
    replacements: list[Replacement] = []
    is_done = False
    try:
        for group in grouped(task, cleaned_to):
            replacement = _Group(source, workshop, sieve, tally).copy(group, aborted, cleaned_to)
            if replacement is not None:
                replacements.append(replacement)
        if replacements:
            disk.sync_directory(task.directory)
        is_done = True
    finally:
        if not is_done:
            workshop.discard()
    tally.copy_seconds = clock.monotonic() - mapped
    return CleaningResult(tuple(replacements), cleaned_to, tally.figures())


class _Group:
    """The copying of some segments into one."""

    def __init__(self, source: Source, workshop: Workshop, sieve: Sieve, tally: Tally) -> None:
        self._source = source
        self._workshop = workshop
        self._sieve = sieve
        self._tally = tally
        self._is_changed = False

    def copy(
        self, group: Sequence[SegmentSpan], aborted: Sequence[AbortedTransaction], cleaned_to: int
    ) -> Replacement | None:
        """Write the segment that stands for a group; None when it would be the one that is there."""
        first, end = group[0].base, group[-1].end_offset
        self._sieve.start_group(group)
        segment = NewSegment(self._workshop, first)
        try:
            for span in group:
                self._copy_segment(segment, span)
            before = [one for one in aborted if first <= one.last_offset < end]
            # What the walk passed is in the list of those it met; beyond, nothing was cleaned.
            after = self._sieve.aborted + [one for one in before if one.last_offset >= cleaned_to]
            self._sieve.aborted = []
            if len(group) == 1 and not self._is_changed and len(after) == len(before):
                self._workshop.discard(first)
                return None
            after.sort(key=lambda one: one.last_offset)
            segment.finish(after, max(span.modified_ms for span in group))
        finally:
            segment.close()
        self._tally.bytes_written += segment.size
        return Replacement(first, segment.size, tuple(span.base for span in group))

    def _copy_segment(self, segment: NewSegment, span: SegmentSpan) -> None:
        self._sieve.start_segment(span)
        self._tally.bytes_read += span.size
        for position, header, batch in batches(self._source, span):
            try:
                kept = self._sieve.sift(header, batch)
            except BrokerError as error:
                raise DamagedSegment(self._source.path(span), position, str(error)) from error
            if kept is None:
                self._is_changed = True
                continue
            self._is_changed = self._is_changed or kept.data is not batch
            segment.add(*kept)
