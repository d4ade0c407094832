"""The keys of the cleaner: what compacted topics inherit, and how much of the machine compaction may take."""

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


@dataclasses.dataclass(frozen=True)
class CleanerSettings:
    """What the cleaner is told, and by inheritance every compacted topic. Defaults are Apache Kafka's."""

    log_cleaner_enable: bool = setting(
        "log.cleaner.enable", boolean, True, "Whether topics with cleanup.policy compact are compacted."
    )
    log_cleaner_threads: int = setting(
        "log.cleaner.threads",
        integer(1),
        1,
        "Logs compacted at once, each in a process of its own that ends when it is idle.",
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        long(THREAD_BUFFER_BYTES_MIN + 1),
        134217728,
        "Bytes for the keys of the parts being compacted, over all log.cleaner.threads; more than 1 MiB for each.",
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
        "Share of log.cleaner.dedupe.buffer.size that is filled before what was read so far is compacted.",
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
        "How long to wait before logs are looked at again when none was to be compacted.",
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
        "Share of a log that must be uncleaned before it is compacted.",
        dynamic=True,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        long(0),
        0,
        "Age below which a record is never compacted away.",
        dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        long(1),
        INT64_MAX,
        "Age above which a record must have been compacted.",
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
    """As `check_cleaner`, for a broker that runs: its threads may at most be doubled or halved at a time."""
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
