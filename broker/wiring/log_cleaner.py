"""The log cleaner in the broker: its settings from the configuration, and its log lines."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.administration.activity.broker_activity import BrokerActivity
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.replication.ports import Logger
from sordini.storage.cleaner import Cleaned, LogCleaner, Worker
from sordini.storage.compaction.log_selection import Cleanable, CleanerConfig
from sordini.storage.log import Log
from sordini.storage.log_manager import LogManager

MB = 1_000_000


def wire_cleaner(
    dynamic: DynamicConfig,
    logs: LogManager,
    worker: Worker,
    now_ms: Callable[[], int],
    lines: Logger,
    activity: BrokerActivity,
) -> LogCleaner:
    """A cleaner that follows the configuration; nothing runs yet."""
    report = CleanerLog(lines)
    report.on_cleaned, report.on_uncleanable = activity.cleaned, activity.uncleanable
    cleaner = LogCleaner(logs, worker, report, now_ms, cleaner_config(dynamic.config))

    def follow(config: Config) -> None:
        cleaner.config = cleaner_config(config)

    dynamic.on_change(follow)
    return cleaner


def cleaner_config(config: Config) -> CleanerConfig:
    """The cleaner's settings, from the keys `log.cleaner.*`."""
    return CleanerConfig(
        is_enabled=config.log_cleaner_enable,
        threads=config.log_cleaner_threads,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes=config.log_cleaner_io_buffer_size,
        io_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        backoff_ms=config.log_cleaner_backoff_ms,
    )


class CleanerLog:
    """One log line for each cleaning, and for each that did not succeed."""

    def __init__(self, lines: Logger) -> None:
        self._lines = lines
        self.on_cleaned: Callable[[Cleaned], object] = _ignore
        self.on_uncleanable: Callable[[Log], object] = _ignore

    def cleaned(self, cleaned: Cleaned) -> None:
        figures = cleaned.result.figures
        seconds = figures.map_seconds + figures.copy_seconds
        worked = figures.bytes_mapped + figures.bytes_read
        self._lines.info(
            "log cleaned",
            partition=str(cleaned.log.topic_partition),
            dirty_ratio=round(cleaned.part.ratio, 3),
            clean_to=cleaned.result.cleaned_to,
            mb_before=round(cleaned.bytes_before / MB, 1),
            mb_after=round(cleaned.bytes_after / MB, 1),
            records_read=figures.records_read,
            records_kept=figures.records_kept,
            tombstones_dropped=figures.tombstones_dropped,
            map_fullness=round(figures.map_fullness, 3),
            seconds=round(seconds, 2),
            mb_per_s=round(worked / MB / seconds, 1) if seconds > 0 else None,
        )
        self.on_cleaned(cleaned)

    def checkpoint_reset(self, log: Log, part: Cleanable) -> None:
        self._lines.warning(
            "cleaner checkpoint is outside the log; cleaning from the log start",
            partition=str(log.topic_partition),
            checkpoint=log.compaction.first_dirty_offset,
            log_start=log.log_start_offset,
            log_end=log.log_end_offset,
            first_dirty=part.first_dirty_offset,
        )

    def discarded(self, log: Log, reason: str) -> None:
        self._lines.info("cleaning discarded", partition=str(log.topic_partition), reason=reason)

    def failed(self, log: Log, reason: str) -> None:
        self._lines.warning("cleaning failed; will be retried", partition=str(log.topic_partition), reason=reason)

    def uncleanable(self, log: Log, reason: str) -> None:
        self._lines.error("log marked uncleanable", partition=str(log.topic_partition), reason=reason)
        self.on_uncleanable(log)


def _ignore(_what: object) -> None:
    """The default: no listener."""
