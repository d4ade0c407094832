"""The cleaner: compacts logs one after the other, the filthiest first, for as long as the broker runs.

What is decided is in `compaction.policy`, the work is a `Worker`'s - another process, where CPU time is nobody's
loss - and what happens to the log's files is in `compaction.swap`. In between everything may have changed: a log that
was cut, closed, deleted or configured otherwise while a worker read it keeps its segments, and what the worker made of
them is removed. A log that a worker cannot clean is left alone, and the others go on.

At most `threads` logs are cleaned at once. When nothing is due the cleaner looks again after `backoff_ms`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, Protocol

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.storage import names
from sordini.storage.compaction import policy
from sordini.storage.compaction.policy import Cleanable, CleanerConfig, LogFacts
from sordini.storage.compaction.segment_replacement import OutdatedResult, discard, finish, portions, stage
from sordini.storage.compaction.task import CleaningResult, CleaningTask, SegmentSpan
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.log_directory import LogDirectory
from sordini.storage.log_manager import LOGS_PER_SLICE, LogManager
from sordini.storage.segment import Segment

SEGMENTS_PER_SLICE = 16
FAILURES_MAX = 3
"""So many cleanings in a row may fail for what may pass, before the log counts as uncleanable."""
WAIT_MS_MIN, WAIT_MS_MAX = 1_000, 600_000
"""How long a log waits after a failure; twice as long after each further one."""


class FailureKind(Enum):
    """Why a worker has no result."""

    FULL = "full"
    """No room for the new segments: there may be later."""
    PASSING = "passing"
    """A worker that died or hung, or an error of the system that may not come again."""
    FINAL = "final"
    """Damage in the log, or a bug: it would be the same the next time."""


class WorkerFailed(Exception):
    """A cleaning came to nothing; the log is as it was."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Worker(Protocol):
    """Carries cleanings out, somewhere else. Several may be under way at once."""

    @property
    def died(self) -> int:
        """How often what works had to be started anew."""

    async def run(self, task: CleaningTask) -> CleaningResult:
        """Make the replacements of one task; raises WorkerFailed. Once it has returned or raised, nothing works on."""

    async def close(self) -> None:
        """End whatever runs."""


class Cleaned(NamedTuple):
    """A log before and after."""

    log: Log
    part: Cleanable
    result: CleaningResult
    bytes_before: int
    bytes_after: int


class Report(Protocol):
    """Who is told what the cleaner does."""

    def cleaned(self, cleaned: Cleaned) -> None: ...

    def checkpoint_reset(self, log: Log, part: Cleanable) -> None:
        """The first dirty offset that was written down is outside the log."""

    def thrown_away(self, log: Log, reason: str) -> None:
        """The log changed meanwhile."""

    def failed(self, log: Log, reason: str) -> None:
        """It will be tried again."""

    def uncleanable(self, log: Log, reason: str) -> None:
        """It will not be tried again before the next start."""


class CleanerFigures:
    """What the cleaner has done since the start, for the metrics."""

    __slots__ = (
        "dirty_ratio_max",
        "failures",
        "last_run_seconds",
        "read_bytes",
        "runs",
        "thrown_away",
        "written_bytes",
    )

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.thrown_away = 0
        self.read_bytes = 0
        self.written_bytes = 0
        self.last_run_seconds = 0.0
        self.dirty_ratio_max = 0.0
        """The highest dirty ratio of all logs when they were last looked at."""


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
        self._lanes = 0
        self._busy: set[str] = set()
        """Directories in which a worker is at work, whosever they are by now."""

    @property
    def uncleanable_count(self) -> int:
        """Logs that are left alone for good."""
        return sum(1 for log in self._logs.logs() if log.compaction.uncleanable is not None)

    async def run(self) -> None:
        """Clean until cancelled; then nothing of it runs any more."""
        try:
            async with asyncio.TaskGroup() as lanes:
                while True:
                    while self.config.is_enabled and self._lanes < max(1, self.config.threads):
                        self._lanes += 1
                        lanes.create_task(self._clean_all())
                    await self._checkpoint()
                    await asyncio.sleep(max(1, self.config.backoff_ms) / 1000)
        finally:
            await self.worker.close()

    async def clean_once(self) -> bool:
        """Clean the log that needs it most; False when none does. Raises nothing for what can go wrong with a log."""
        log = await self._filthiest()
        if log is None:
            return False
        await self._clean(log)
        return True

    # Helpers, in the order in which they are called above.

    async def _clean_all(self) -> None:
        try:
            while self._lanes <= max(1, self.config.threads) and await self.clean_once():
                pass
        finally:
            self._lanes -= 1

    async def _filthiest(self) -> Log | None:
        now_ms = self._now_ms()
        due: list[tuple[Log, Cleanable]] = []
        ratio_max = 0.0
        for number, log in enumerate(self._logs.logs()):
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            part = self._judge(log, now_ms)
            if part is not None:
                ratio_max = max(ratio_max, part.ratio)
                if part.is_due(log.config):
                    due.append((log, part))
        self.figures.dirty_ratio_max = ratio_max
        # Another lane may have taken one while the loop had its turn.
        due = [(log, part) for log, part in due if self._may_be_cleaned(log, now_ms)]
        number_of_filthiest = policy.filthiest(part for _, part in due)
        return None if number_of_filthiest is None else due[number_of_filthiest][0]

    def _may_be_cleaned(self, log: Log, now_ms: int) -> bool:
        state = log.compaction
        return (
            log.config.cleanup_compact
            and state.uncleanable is None
            and now_ms >= state.not_before_ms
            and not log.is_closed
            and log.home.failure is None
            and log.directory not in self._busy
        )

    def _judge(self, log: Log, now_ms: int) -> Cleanable | None:
        """How dirty a log is; None for one that is not to be cleaned, or cannot be looked at."""
        if not self._may_be_cleaned(log, now_ms) or len(log.segments) == 1:
            return None
        try:
            return policy.judge(_facts(log, now_ms, _spans(log)), log.config, now_ms)
        except OSError as error:
            log.home.wrong(error)
            return None

    async def _clean(self, log: Log) -> None:
        directory, state, cuts = log.directory, log.compaction, log.cuts
        self._busy.add(directory)
        try:
            await self._try_to_clean(log, cuts)
            state.failures = 0
        except OutdatedResult as error:
            self.figures.thrown_away += 1
            self._report.thrown_away(log, str(error))
        except WorkerFailed as error:
            if log.cuts != cuts or self._has_changed(log):
                self.figures.thrown_away += 1
                self._report.thrown_away(log, str(error))
            else:
                self._failed(log, error.kind, str(error))
        except BrokerError as error:
            self._failed(log, FailureKind.FULL, str(error))
        except StorageError:
            pass  # The directory is offline, and told so.
        finally:
            state.is_running = False
            if log.home.failure is None:
                # Whoever has the directory by now: nobody else has begun to clean in it. What cannot be removed now is
                # removed before the next cleaning, or by the next start.
                with contextlib.suppress(OSError):
                    discard(log.home.disk, directory)
            self._busy.discard(directory)

    async def _try_to_clean(self, log: Log, cuts: int) -> None:
        """Raises WorkerFailed, OutdatedResult, StorageError and BrokerError."""
        now_ms, bytes_before = self._now_ms(), log.size
        if log.config.cleanup_delete:
            log.apply_retention(now_ms, log.high_watermark)  # What is due to go need not be cleaned.
        log.compaction.is_running = True
        try:
            discard(log.home.disk, log.directory)
            facts = _facts(log, now_ms, await _full_spans(log))
        except OSError as error:
            raise log.home.wrong(error) from error
        _must_be_unchanged(log, cuts)
        part = policy.judge(facts, log.config, now_ms)
        if part.was_reset and not log.config.cleanup_delete:
            self._report.checkpoint_reset(log, part)
        producers = [(entry.producer_id, entry.epoch, entry.last_offset) for entry in log.producers.entries()]
        task = policy.task_of(log.directory, facts, part, log.config, self.config, producers, now_ms)
        if not task.segments:
            raise OutdatedResult("nothing is left to be cleaned")
        result = await self.worker.run(task)
        if result.cleaned_to <= task.first_dirty_offset:
            raise WorkerFailed(FailureKind.PASSING, f"the cleaning came no further than {result.cleaned_to}")
        await self._put_in_place(log, cuts, result)
        self._count(Cleaned(log, part, result, bytes_before, log.size))
        await self._checkpoint()

    async def _put_in_place(self, log: Log, cuts: int, result: CleaningResult) -> None:
        """Swap a few segments at a time, so that requests are served in between."""
        for replacements in portions(result):
            _must_be_unchanged(log, cuts)
            stage(log, replacements)
            try:
                await log.home.disk.offload(lambda: log.home.disk.sync_directory(log.directory))
            except OSError as error:
                if log.is_closed:
                    raise OutdatedResult("the log was closed") from error
                raise log.home.fail(error) from error
            _must_be_unchanged(log, cuts)
            finish(log, self._now_ms())
            await asyncio.sleep(0)
        _must_be_unchanged(log, cuts)
        log.compaction.first_dirty_offset = result.cleaned_to

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
        if kind is not FailureKind.FULL or state.failures == 1:  # A disk may be full for days.
            self._report.failed(log, reason)

    def _has_changed(self, log: Log) -> bool:
        return log.is_closed or log.home.failure is not None or not log.config.cleanup_compact

    async def _checkpoint(self) -> None:
        await self._logs.checkpoint(names.CLEANER_OFFSETS, LogDirectory.cleaner_offsets)


def _must_be_unchanged(log: Log, cuts: int) -> None:
    """Raise OutdatedResult when what is made of the log's segments must not come into it any more."""
    if log.is_closed:
        raise OutdatedResult("the log was closed or deleted")
    if log.cuts != cuts:
        raise OutdatedResult("the log was cut")
    if not log.config.cleanup_compact:
        raise OutdatedResult("the topic is not compacted any more")
    log.home.check()


def _facts(log: Log, now_ms: int, spans: list[SegmentSpan]) -> LogFacts:
    """Raises OSError."""
    first_times: list[int] = []
    checkpoint = log.compaction.first_dirty_offset
    if policy.needs_first_times(log.config, now_ms):
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
    """The closed segments as far as the verdict needs to know them. Raises OSError."""
    with_times = policy.needs_largest_times(log.config)
    return [
        SegmentSpan(segment.base, segment.size, end_offset, 0, _largest_timestamp(log, segment) if with_times else 0)
        for segment, end_offset in _closed(log)
    ]


async def _full_spans(log: Log) -> list[SegmentSpan]:
    """The closed segments with their times, a few at a time: each costs a look at its files. Raises OSError."""
    spans = []
    for number, (segment, end_offset) in enumerate(list(_closed(log))):
        if number % SEGMENTS_PER_SLICE == SEGMENTS_PER_SLICE - 1:
            cuts = log.cuts
            await asyncio.sleep(0)
            if log.is_closed or log.cuts != cuts:
                break  # The files have other names by now.
        modified_ms = log.home.disk.modified_ms(segment.handle.path)
        spans.append(SegmentSpan(segment.base, segment.size, end_offset, modified_ms, _largest_timestamp(log, segment)))
    return spans


def _closed(log: Log) -> Iterator[tuple[Segment, int]]:
    """The closed segments with the offsets at which they end."""
    segments = log.segments.all()
    return ((segment, following.base) for segment, following in pairwise(segments))


def _largest_timestamp(log: Log, segment: Segment) -> int:
    return segment.largest_timestamp(log.config.index_interval_bytes, log.home.disk)
