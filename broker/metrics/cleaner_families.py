"""Metrics of log compaction."""

from __future__ import annotations

from sordini.broker.metrics.families import counter, gauge

CLEANER_FAMILIES = (
    counter(
        "sordini_cleaner_runs_total",
        "Compactions of a partition that came to their end.",
        lambda sources: sources.parts.cleaner.figures.runs,
    ),
    counter(
        "sordini_cleaner_failures_total",
        "Compactions that failed: no room, damage in the log, or a process that died.",
        lambda sources: sources.parts.cleaner.figures.failures,
    ),
    counter(
        "sordini_cleaner_discarded_total",
        "Compactions whose result came too late, the partition having been cut, deleted or configured otherwise.",
        lambda sources: sources.parts.cleaner.figures.discarded,
    ),
    counter(
        "sordini_cleaner_read_bytes_total",
        "Bytes of log that were read to be compacted.",
        lambda sources: sources.parts.cleaner.figures.read_bytes,
    ),
    counter(
        "sordini_cleaner_written_bytes_total",
        "Bytes of log that compactions have rewritten.",
        lambda sources: sources.parts.cleaner.figures.written_bytes,
    ),
    gauge(
        "sordini_cleaner_last_run_seconds",
        "How long the last compaction of a partition took.",
        lambda sources: sources.parts.cleaner.figures.last_run_seconds,
    ),
    gauge(
        "sordini_cleaner_dirty_ratio_max",
        "The largest share of a compacted log that waits for compaction, at the last check of all logs.",
        lambda sources: sources.parts.cleaner.figures.dirty_ratio_max,
    ),
    gauge(
        "sordini_cleaner_uncleanable_partitions",
        "Partitions that are not compacted any more before the next start: a log line says why.",
        lambda sources: sources.parts.cleaner.uncleanable_count,
    ),
    counter(
        "sordini_cleaner_process_failures_total",
        "Processes that died, or had to be ended, while they compacted.",
        lambda sources: sources.parts.cleaner.worker.died,
    ),
)
