"""Metrics of jobs on records: what is opened, checked and converted in child processes, and what is decoded there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sordini.broker.metrics.families import counter, gauge

if TYPE_CHECKING:
    from sordini.broker.metrics.families import MetricFamily, MetricSources
    from sordini.broker.records.jobs.queue import JobQueue


def _of_queue(prefix: str, done: str, queue: Callable[[MetricSources], JobQueue]) -> tuple[MetricFamily, ...]:
    """The families of one queue; `done` is what its jobs are."""
    return (
        counter(f"{prefix}_total", done, lambda sources: queue(sources).totals.done),
        counter(
            f"{prefix}_refused_total",
            "Jobs that were refused for now: too many wait, the request has used up its time, or a process died.",
            lambda sources: queue(sources).totals.refused,
        ),
        gauge(
            f"{prefix}_running",
            "Jobs that child processes work on (bounded by sordini.record.workers).",
            lambda sources: queue(sources).running_count,
        ),
        gauge(
            f"{prefix}_waiting",
            "Jobs that wait for a child process.",
            lambda sources: queue(sources).waiting_count,
        ),
        gauge(
            f"{prefix}_bytes",
            "Bytes of records in jobs that run or wait (bounded by sordini.record.workers.queue.bytes.max).",
            lambda sources: queue(sources).held_bytes,
        ),
        counter(
            f"{prefix}_cpu_seconds_total",
            "Processor time that these jobs have taken.",
            lambda sources: queue(sources).totals.cpu_ms / 1000,
        ),
    )


RECORD_FAMILIES = (
    *_of_queue(
        "sordini_record_jobs",
        "Record sets and batches that a child process has opened, checked, converted or searched.",
        lambda sources: sources.parts.record_jobs,
    ),
    *_of_queue(
        "sordini_decode_jobs",
        "Record sets whose values a child process has decoded by their schemas (sordini.schema.validate=full).",
        lambda sources: sources.parts.schemas.decoding,
    ),
    counter(
        "sordini_record_process_failures_total",
        "Processes that died, or had to be ended, while they worked on a job.",
        lambda sources: sources.parts.record_jobs.worker.died,
    ),
)
