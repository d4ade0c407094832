"""Metrics of log compaction."""

from __future__ import annotations

from sordini.broker.metrics.families import Family, Kind, one

CLEANER_FAMILIES = (
    Family(
        "sordini_cleaner_runs_total",
        Kind.COUNTER,
        "Compactions of a partition that came to their end.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.runs),
    ),
    Family(
        "sordini_cleaner_failures_total",
        Kind.COUNTER,
        "Compactions that failed: no room, damage in the log, or a process that died.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.failures),
    ),
    Family(
        "sordini_cleaner_thrown_away_total",
        Kind.COUNTER,
        "Compactions whose result came too late, the partition having been cut, deleted or configured otherwise.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.discarded),
    ),
    Family(
        "sordini_cleaner_read_bytes_total",
        Kind.COUNTER,
        "Bytes of log that were read to be compacted.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.read_bytes),
    ),
    Family(
        "sordini_cleaner_written_bytes_total",
        Kind.COUNTER,
        "Bytes of log that compactions have written anew.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.written_bytes),
    ),
    Family(
        "sordini_cleaner_last_run_seconds",
        Kind.GAUGE,
        "How long the last compaction of a partition took.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.last_run_seconds),
    ),
    Family(
        "sordini_cleaner_dirty_ratio_max",
        Kind.GAUGE,
        "The largest share of a compacted log that waits to be compacted, when all were last looked at.",
        (),
        one(lambda sources: sources.parts.cleaner.figures.dirty_ratio_max),
    ),
    Family(
        "sordini_cleaner_uncleanable_partitions",
        Kind.GAUGE,
        "Partitions that are not compacted any more before the next start: a log line says why.",
        (),
        one(lambda sources: sources.parts.cleaner.uncleanable_count),
    ),
    Family(
        "sordini_cleaner_dead_children_total",
        Kind.COUNTER,
        "Processes that died, or had to be ended, while they compacted.",
        (),
        one(lambda sources: sources.parts.cleaner.worker.died),
    ),
)
