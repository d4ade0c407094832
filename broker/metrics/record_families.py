"""Metrics of jobs on records: what is opened, checked and converted in child processes."""

from __future__ import annotations

from sordini.broker.metrics.families import Kind, MetricFamily, single

RECORD_FAMILIES = (
    MetricFamily(
        "sordini_record_jobs_total",
        Kind.COUNTER,
        "Record sets and batches that a child process has opened, checked, converted or searched.",
        (),
        single(lambda sources: sources.parts.record_jobs.totals.done),
    ),
    MetricFamily(
        "sordini_record_jobs_refused_total",
        Kind.COUNTER,
        "Jobs that were refused for now: too many wait, the request has used up its time, or a process died.",
        (),
        single(lambda sources: sources.parts.record_jobs.totals.refused),
    ),
    MetricFamily(
        "sordini_record_jobs_running",
        Kind.GAUGE,
        "Jobs that child processes work on (bounded by sordini.record.workers).",
        (),
        single(lambda sources: sources.parts.record_jobs.running_count),
    ),
    MetricFamily(
        "sordini_record_jobs_waiting",
        Kind.GAUGE,
        "Jobs that wait for a child process.",
        (),
        single(lambda sources: sources.parts.record_jobs.waiting_count),
    ),
    MetricFamily(
        "sordini_record_jobs_bytes",
        Kind.GAUGE,
        "Bytes of records in jobs that run or wait (bounded by sordini.record.waiting.bytes.max).",
        (),
        single(lambda sources: sources.parts.record_jobs.held_bytes),
    ),
    MetricFamily(
        "sordini_record_jobs_cpu_seconds_total",
        Kind.COUNTER,
        "Processor time that these jobs have taken.",
        (),
        single(lambda sources: sources.parts.record_jobs.totals.cpu_ms / 1000),
    ),
    MetricFamily(
        "sordini_record_dead_children_total",
        Kind.COUNTER,
        "Processes that died, or had to be ended, while they worked on a job.",
        (),
        single(lambda sources: sources.parts.record_jobs.worker.died),
    ),
)
