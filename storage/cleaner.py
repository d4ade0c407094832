"""The log cleaner: compacts logs, the filthiest first, for as long as the broker runs.

`compaction.policy` decides; a `Worker` (another process, so the loop stays free) does the work, and
`compaction.segment_replacement` swaps its files into the log. The log may change meanwhile: when it is truncated,
closed, deleted or reconfigured while a worker reads it, it keeps its segments, and the worker's files are removed. A
log that a worker cannot clean is marked uncleanable, and the others are still cleaned.

At most `threads` logs are cleaned at once. When no log is due, the cleaner checks again after `backoff_ms`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import pairwise
from typing import Protocol

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.storage import names
from sordini.storage.compaction import log_selection
from sordini.storage.compaction.log_selection import Cleanable, CleanerConfig, LogFacts
from sordini.storage.compaction.segment_replacement import OutdatedResult, discard, ensure_unchanged, swap_in
from sordini.storage.compaction.task import CleaningResult, CleaningTask, SegmentSpan
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.log_directory import LogDirectory
from sordini.storage.log_jobs import LOGS_PER_SLICE
from sordini.storage.log_manager import LogManager
from sordini.storage.segment import Segment
from sordini.system.named_tuple import NamedTuple

SEGMENTS_PER_SLICE = 16
FAILURES_MAX = 3
"""After this number of transient failures in a row a log is uncleanable."""
WAIT_MS_MIN, WAIT_MS_MAX = 1_000, 600_000
"""The delay after a failure, doubled after each further one."""


class FailureKind(Enum):
    """Why a worker has no result."""

    FULL = "full"
    """No disk space for the new segments; there may be later."""
    PASSING = "passing"
    """A worker that crashed or hung, or a system error that may be transient."""
    FINAL = "final"
    """Damage in the log, or a bug: a retry would fail the same way."""


class WorkerFailed(Exception):
    """A cleaning failed; the log is unchanged."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


# A child process carries it out, never a thread: one that computes beside the loop cut it from 60,000 to 200
# requests/s.
class Worker(Protocol):
    """The port for cleanings, which run off the loop, and concurrently."""

    @property
    def died(self) -> int:
        """How often a worker process had to be restarted."""

    async def run(self, task: CleaningTask) -> CleaningResult:
        """Make the replacements of one task; raises WorkerFailed. No work on the task is left after it."""

    async def close(self) -> None:
        """End running tasks."""


class Cleaned(NamedTuple):
    """A log before and after."""

    log: Log
    part: Cleanable
    result: CleaningResult
    bytes_before: int
    bytes_after: int


class Report(Protocol):
    """The port for the cleaner's log lines."""

    def cleaned(self, cleaned: Cleaned) -> None: ...

    def checkpoint_reset(self, log: Log, part: Cleanable) -> None:
        """The first dirty offset of the checkpoint is outside the log."""

    def discarded(self, log: Log, reason: str) -> None:
        """The log changed during its cleaning: the result was discarded."""

    def failed(self, log: Log, reason: str) -> None:
        """The cleaning will be retried."""

    def uncleanable(self, log: Log, reason: str) -> None:
        """The log will not be cleaned before the next start."""


class CleanerFigures:
    """The cleaner's figures since the start, for the metrics."""

    __slots__ = (
        "dirty_ratio_max",
        "discarded",
        "failures",
        "last_run_seconds",
        "read_bytes",
        "runs",
        "written_bytes",
    )

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.discarded = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self.last_run_seconds = 0.0
        self.dirty_ratio_max = 0.0
        """The highest dirty ratio of all logs at the last check."""


class LogCleaner:
    """Cleans the logs of a LogManager. `config` may be set at any time."""

    def __init__(
        self, logs: LogManager, worker: Worker, report: Report, now_ms: Callable[[], int], config: CleanerConfig
    ) -> None:
        self.config = config
        self.figures = CleanerFigures()
        self.worker = worker
        self._logs = logs
        self._report = report
        self._now_ms = now_ms
        self._running = 0
        self._busy: set[str] = set()
        """Directories in which a worker runs, even if the log has been deleted and created again."""

    @property
    def uncleanable_count(self) -> int:
        """Logs that will not be cleaned before the next start."""
        return sum(1 for log in self._logs.logs() if log.compaction.uncleanable is not None)

    async def run(self) -> None:
        """Clean until cancelled; no cleaning is left running."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    while self.config.is_enabled and self._running < max(1, self.config.threads):
                        self._running += 1
                        tasks.create_task(self._clean_all())
                    await self._checkpoint()
                    await asyncio.sleep(max(1, self.config.backoff_ms) / 1000)
        finally:
            await self.worker.close()

    async def clean_once(self) -> bool:
        """Clean the filthiest log; False when none is due. A log's failures are reported, not raised."""
        log = await self._filthiest()
        if log is None:
            return False
        await self._clean(log)
        return True

    # Helpers, in the order in which they are called above.

    async def _clean_all(self) -> None:
        try:
            while self._running <= max(1, self.config.threads) and await self.clean_once():
                pass
        finally:
            self._running -= 1

    async def _filthiest(self) -> Log | None:
        now_ms = self._now_ms()
        due: list[tuple[Log, Cleanable]] = []
        ratio_max = 0.0
        for number, log in enumerate(self._logs.logs()):
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            part = self._cleanable(log, now_ms)
            if part is not None:
                ratio_max = max(ratio_max, part.ratio)
                if part.is_due(log.config):
                    due.append((log, part))
        self.figures.dirty_ratio_max = ratio_max
        # Another task may have taken one while the loop served requests.
        due = [(log, part) for log, part in due if self._may_be_cleaned(log, now_ms)]
        filthiest = log_selection.filthiest(part for _, part in due)
        return None if filthiest is None else due[filthiest][0]

    def _may_be_cleaned(self, log: Log, now_ms: int) -> bool:
        state = log.compaction
        return (
            log.config.cleanup_compact
            and state.uncleanable is None
            and now_ms >= state.not_before_ms
            and not log.is_closed
            and log.log_dir.failure is None
            and log.directory not in self._busy
        )

    def _cleanable(self, log: Log, now_ms: int) -> Cleanable | None:
        """The part of a log that may be cleaned; None for a log that may not be cleaned or cannot be read."""
        if not self._may_be_cleaned(log, now_ms) or len(log.segments) == 1:
            return None
        try:
            return log_selection.find_cleanable(_facts(log, now_ms, _spans(log)), log.config, now_ms)
        except OSError as error:
            log.log_dir.classify(error)
            return None

    async def _clean(self, log: Log) -> None:
        directory, state, truncations = log.directory, log.compaction, log.truncations
        self._busy.add(directory)
        try:
            await self._try_to_clean(log, truncations)
            state.failures = 0
        except OutdatedResult as error:
            self.figures.discarded += 1
            self._report.discarded(log, str(error))
        except WorkerFailed as error:
            if log.truncations != truncations or self._has_changed(log):
                self.figures.discarded += 1
                self._report.discarded(log, str(error))
            else:
                self._failed(log, error.kind, str(error))
        except BrokerError as error:
            self._failed(log, FailureKind.FULL, str(error))
        except StorageError:
            pass  # The directory is offline, which was reported.
        finally:
            state.is_running = False
            if log.log_dir.failure is None:
                # Even if the log was created again meanwhile: no other cleaning runs in this directory. The next
                # cleaning or start removes what cannot be removed now.
                with contextlib.suppress(OSError):
                    discard(log.log_dir.disk, directory)
            self._busy.discard(directory)

    async def _try_to_clean(self, log: Log, truncations: int) -> None:
        """Raises WorkerFailed, OutdatedResult, StorageError and BrokerError."""
        now_ms, bytes_before = self._now_ms(), log.size
        if log.config.cleanup_delete:
            log.apply_retention(now_ms, log.high_watermark)  # Segments that are due for deletion need not be cleaned.
        log.compaction.is_running = True
        try:
            discard(log.log_dir.disk, log.directory)
            facts = _facts(log, now_ms, await _full_spans(log))
        except OSError as error:
            raise log.log_dir.classify(error) from error
        ensure_unchanged(log, truncations)
        part = log_selection.find_cleanable(facts, log.config, now_ms)
        if part.was_reset and not log.config.cleanup_delete:
            self._report.checkpoint_reset(log, part)
        producers = [(entry.producer_id, entry.epoch, entry.last_offset) for entry in log.producers.entries()]
        task = log_selection.task_of(log.directory, facts, part, log.config, self.config, producers, now_ms)
        if not task.segments:
            raise OutdatedResult("nothing is left to clean")
        result = await self.worker.run(task)
        if result.cleaned_to <= task.first_dirty_offset:
            raise WorkerFailed(FailureKind.PASSING, f"the cleaning did not advance past {result.cleaned_to}")
        await swap_in(log, result, truncations, self._now_ms)
        self._count(Cleaned(log, part, result, bytes_before, log.size))
        await self._checkpoint()

    def _count(self, cleaned: Cleaned) -> None:
        result = cleaned.result.figures
        figures = self.figures
        figures.runs += 1
        figures.read_bytes += result.bytes_mapped + result.bytes_read
        figures.written_bytes += result.bytes_written
        figures.last_run_seconds = result.map_seconds + result.copy_seconds
        self._report.cleaned(cleaned)

    def _failed(self, log: Log, kind: FailureKind, reason: str) -> None:
        state = log.compaction
        self.figures.failures += 1
        state.failures += 1
        if kind is FailureKind.FINAL or (kind is FailureKind.PASSING and state.failures >= FAILURES_MAX):
            state.uncleanable = reason
            self._report.uncleanable(log, reason)
            return
        wait_ms = min(WAIT_MS_MAX, max(WAIT_MS_MIN, self.config.backoff_ms) << min(state.failures - 1, 10))
        state.not_before_ms = self._now_ms() + wait_ms
        if kind is not FailureKind.FULL or state.failures == 1:  # A disk may stay full for days.
            self._report.failed(log, reason)

    def _has_changed(self, log: Log) -> bool:
        return log.is_closed or log.log_dir.failure is not None or not log.config.cleanup_compact

    async def _checkpoint(self) -> None:
        await self._logs.checkpoint(names.CLEANER_OFFSETS, LogDirectory.cleaner_offsets)


def _facts(log: Log, now_ms: int, spans: list[SegmentSpan]) -> LogFacts:
    """Raises OSError."""
    first_times: list[int] = []
    checkpoint = log.compaction.first_dirty_offset
    if log_selection.needs_first_times(log.config, now_ms):
        first_times = [
            segment.first_batch_timestamp() if span.end_offset > (checkpoint or 0) else NO_TIMESTAMP
            for segment, span in zip(log.segments.all(), spans, strict=False)
        ]
    return LogFacts(
        spans,
        checkpoint,
        log.log_start_offset,
        log.log_end_offset,
        log.segments.active.base,
        log.last_stable_offset(log.high_watermark),
        log.recovery_point,
        first_times,
    )


def _spans(log: Log) -> list[SegmentSpan]:
    """The closed segments, with the fields that `log_selection.cleanable` needs. Raises OSError."""
    with_times = log_selection.needs_largest_times(log.config)
    return [
        SegmentSpan(segment.base, segment.size, end_offset, 0, _largest_timestamp(log, segment) if with_times else 0)
        for segment, end_offset in _closed(log)
    ]


async def _full_spans(log: Log) -> list[SegmentSpan]:
    """The closed segments with their times, a few per slice: each reads its files. Raises OSError."""
    spans = []
    for number, (segment, end_offset) in enumerate(list(_closed(log))):
        if number % SEGMENTS_PER_SLICE == SEGMENTS_PER_SLICE - 1:
            truncations = log.truncations
            await asyncio.sleep(0)
            if log.is_closed or log.truncations != truncations:
                break  # The files have been renamed or removed.
        modified_ms = log.log_dir.disk.modified_ms(segment.handle.path)
        spans.append(SegmentSpan(segment.base, segment.size, end_offset, modified_ms, _largest_timestamp(log, segment)))
    return spans


def _closed(log: Log) -> Iterator[tuple[Segment, int]]:
    """The closed segments with the offsets at which they end."""
    segments = log.segments.all()
    return ((segment, following.base) for segment, following in pairwise(segments))


def _largest_timestamp(log: Log, segment: Segment) -> int:
    return segment.largest_timestamp(log.config.index_interval_bytes, log.log_dir.disk)
