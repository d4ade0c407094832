"""Which log is compacted next, and which part of it. Pure: sizes, times and offsets are arguments.

A log has a clean part, a dirty part after it, and a part that may not be cleaned yet:

    log start        first dirty offset      first uncleanable segment      log end
        |--- clean ---------|--- dirty -------------|--- active, unstable, young ---|

The dirty share of the first two, in bytes of whole segments, is the dirty ratio. The log with the highest is cleaned
first, if its ratio is above `min.cleanable.dirty.ratio`, or if its dirty part holds a record older than
`max.compaction.lag.ms` (KIP-354). The rules are Apache Kafka's, and one more: unsynced records are not cleaned, so that
after a power failure no replacement reflects records that the rest of the log has lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordini.storage.compaction.task import CleaningTask, SegmentSpan
from sordini.storage.log_config import LogConfig
from sordini.system.named_tuple import NamedTuple

MIB = 1024 * 1024


class CleanerConfig(NamedTuple):
    """The broker's own settings of the cleaner; the defaults are Apache Kafka's."""

    is_enabled: bool = True
    threads: int = 1
    """How many logs are cleaned at once, each in a process of its own."""
    dedupe_buffer_bytes: int = 128 * MIB
    """Of all offset maps together."""
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    """Of all read and write buffers together."""
    io_bytes_per_second: float = float("inf")
    """Reads and writes of all together."""
    backoff_ms: int = 15_000


class LogFacts(NamedTuple):
    """The facts about one log, at one moment."""

    segments: Sequence[SegmentSpan]
    """The closed segments, oldest first; without any there is nothing to clean."""
    checkpoint: int | None
    """The first dirty offset, as the last cleaning left it."""
    log_start_offset: int
    log_end_offset: int
    active_base: int
    last_stable_offset: int
    recovery_point: int
    """Below it everything is on the disk."""
    first_times: Sequence[int] = ()
    """ms: the time of each closed segment's first batch, -1 for none; needed where `needs_first_times` says so."""


class Cleanable(NamedTuple):
    """The part of a log that may be cleaned now. Offsets, and bytes of whole segments."""

    first_dirty_offset: int
    uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """A dirty record is older than `max.compaction.lag.ms`."""
    was_reset: bool
    """The checkpoint was outside the log, so the whole log is dirty."""

    @property
    def ratio(self) -> float:
        """The dirty share, from 0 to 1."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether it is to be cleaned now."""
        if self.is_overdue and self.dirty_bytes > 0:
            return True
        return self.ratio > config.min_cleanable_dirty_ratio


def needs_largest_times(config: LogConfig) -> bool:
    """Whether the decision depends on `SegmentSpan.largest_timestamp`, which reads an index."""
    return config.min_compaction_lag_ms > 0


def needs_first_times(config: LogConfig, now_ms: int) -> bool:
    """Whether the decision depends on `LogFacts.first_times`, which read each dirty segment."""
    return config.max_compaction_lag_ms < now_ms


def find_cleanable(facts: LogFacts, config: LogConfig, now_ms: int) -> Cleanable:
    """The part of a log that may be cleaned, and whether that is urgent."""
    first_dirty, was_reset = _first_dirty_offset(facts)
    uncleanable = max(first_dirty, _uncleanable_offset(facts, first_dirty, config, now_ms))
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    for segment in facts.segments:
        if segment.end_offset > uncleanable:
            uncleanable = max(first_dirty, segment.base)
            break
        if segment.base < first_dirty:
            clean_bytes += segment.size
        if segment.end_offset > first_dirty:
            dirty_bytes += segment.size
    for number, first_time in enumerate(facts.first_times):
        # Segments that may not be cleaned yet count, too.
        if facts.segments[number].end_offset > first_dirty and first_time > 0:
            is_overdue = is_overdue or first_time < now_ms - config.max_compaction_lag_ms
    return Cleanable(first_dirty, uncleanable, clean_bytes, dirty_bytes, is_overdue, was_reset)


def _first_dirty_offset(facts: LogFacts) -> tuple[int, bool]:
    """Where the dirty part begins, and whether the checkpoint was discarded."""
    start, checkpoint = facts.log_start_offset, facts.checkpoint
    if checkpoint is None:
        return start, False
    if start <= checkpoint <= facts.log_end_offset:
        return checkpoint, False
    return start, True


def _uncleanable_offset(facts: LogFacts, first_dirty: int, config: LogConfig, now_ms: int) -> int:
    """The first offset that may not be cleaned, whatever segment it is in."""
    uncleanable = min(facts.active_base, facts.last_stable_offset, facts.recovery_point)
    if config.min_compaction_lag_ms > 0:
        oldest_ms = now_ms - config.min_compaction_lag_ms
        for segment in facts.segments:
            if segment.end_offset > first_dirty and segment.largest_timestamp > oldest_ms:
                return min(uncleanable, segment.base)
    return uncleanable


def filthiest(candidates: Iterable[Cleanable]) -> int | None:
    """The index of the dirtiest of the logs that are due; None when there is none."""
    ratios = [candidate.ratio for candidate in candidates]
    return ratios.index(max(ratios)) if ratios else None


def task_of(
    directory: str,
    facts: LogFacts,
    part: Cleanable,
    log_config: LogConfig,
    config: CleanerConfig,
    producers: Iterable[tuple[int, int, int]],
    now_ms: int,
) -> CleaningTask:
    """The task for a worker. Threads share the broker's buffers and rate evenly."""
    threads = max(1, config.threads)
    return CleaningTask(
        directory=directory,
        segments=tuple(segment for segment in facts.segments if segment.end_offset <= part.uncleanable_offset),
        first_dirty_offset=part.first_dirty_offset,
        uncleanable_offset=part.uncleanable_offset,
        log_start_offset=facts.log_start_offset,
        now_ms=now_ms,
        delete_retention_ms=log_config.delete_retention_ms,
        segment_bytes=log_config.segment_bytes,
        segment_index_bytes=log_config.segment_index_bytes,
        index_interval_bytes=log_config.index_interval_bytes,
        # At least a map that makes progress, whatever value the coordination store holds.
        map_bytes=max(MIB, config.dedupe_buffer_bytes // threads),
        map_load_factor=config.load_factor,
        io_buffer_bytes=max(64 * 1024, config.io_buffer_bytes // threads // 2),
        io_bytes_per_second=config.io_bytes_per_second / threads,
        producers=tuple(producers),
    )


def patience_s(task: CleaningTask) -> float:
    """The seconds after which a worker is considered hung: generous, and in proportion to the bytes."""
    size = sum(segment.size for segment in task.segments)
    # Read for the map, read to be copied, and written.
    throttled = 3 * size / task.io_bytes_per_second if task.io_bytes_per_second > 0 else 0.0
    return 120 + size / 250_000 + 2 * throttled
