"""The keys of the log cleaner: defaults of compacted topics, and the resources of compaction."""

from __future__ import annotations

import dataclasses
import sys

from sordini.broker.configuration.settings import (
    INT64_MAX,
    ConfigError,
    boolean,
    integer,
    long,
    ratio,
    setting,
)

THREAD_BUFFER_BYTES_MIN = 1024 * 1024


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class CleanerSettings:
    """The cleaner's settings, also the defaults of compacted topics. Defaults are Apache Kafka's."""

    log_cleaner_enable: bool = setting(
        "log.cleaner.enable", boolean, True, "Whether topics with cleanup.policy compact are compacted."
    )
    log_cleaner_threads: int = setting(
        "log.cleaner.threads",
        integer(1),
        1,
        "Logs compacted concurrently, each in its own process, which ends when idle.",
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        long(THREAD_BUFFER_BYTES_MIN + 1),
        134217728,
        "Memory for key maps during compaction, over all log.cleaner.threads; more than 1 MiB for each.",
        dynamic=True,
    )
    log_cleaner_io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size",
        integer(0),
        524288,
        "Bytes for reading and writing while compacting, over all log.cleaner.threads.",
        dynamic=True,
    )
    log_cleaner_io_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor",
        ratio(0.1, 1.0),
        0.9,
        "Fill level of the key map at which a compaction pass stops reading.",
        dynamic=True,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        ratio(1.0, float("inf")),
        sys.float_info.max,
        "Bytes that compacting may read and write in a second, over all log.cleaner.threads.",
        dynamic=True,
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        long(0),
        15000,
        "Pause after a check that found no log to compact.",
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        long(0),
        86400000,
        "How long deletion markers stay in a compacted log.",
        dynamic=True,
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio",
        ratio(),
        0.5,
        "Minimum ratio of dirty log to total log for a log to be compacted.",
        dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        long(0),
        0,
        "Minimum age of a record before it can be compacted.",
        dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        long(1),
        INT64_MAX,
        "Maximum age of a record before it becomes eligible for compaction.",
        dynamic=True,
    )


def check_cleaner(settings: CleanerSettings) -> None:
    """Refuse buffers that are too small for the threads that share them; raises ConfigError."""
    size, threads = settings.log_cleaner_dedupe_buffer_size, settings.log_cleaner_threads
    if size // threads <= THREAD_BUFFER_BYTES_MIN:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={size} is not valid: allowed is more than {THREAD_BUFFER_BYTES_MIN} "
            f"for each of log.cleaner.threads={threads}"
        )


def check_cleaner_change(now: CleanerSettings, then: CleanerSettings) -> None:
    """As `check_cleaner`, for a running broker: its threads can be doubled or halved at most by one change."""
    if (now.log_cleaner_threads, now.log_cleaner_dedupe_buffer_size) == (
        then.log_cleaner_threads,
        then.log_cleaner_dedupe_buffer_size,
    ):
        return
    check_cleaner(then)
    if not now.log_cleaner_threads // 2 <= then.log_cleaner_threads <= now.log_cleaner_threads * 2:
        raise ConfigError(
            f"log.cleaner.threads={then.log_cleaner_threads} is not valid: allowed is, from "
            f"{now.log_cleaner_threads}, no less than half and no more than double"
        )
