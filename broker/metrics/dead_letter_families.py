"""Metrics of the dead letters of share groups (KIP-1191) that this broker writes."""

from __future__ import annotations

from sordini.broker.metrics.families import counter, gauge

DEAD_LETTER_FAMILIES = (
    counter(
        "sordini_dlq_records_total",
        "Dead letters of share groups that were written to their topics.",
        lambda sources: sources.parts.led_shares.dead_letters.writer.totals.written,
    ),
    counter(
        "sordini_dlq_records_without_copy_total",
        "Of these, those without the key and value of their record, though these are to be copied: too large.",
        lambda sources: sources.parts.led_shares.dead_letters.writer.totals.headers_only,
    ),
    counter(
        "sordini_dlq_failures_total",
        "Batches of dead letters that could not be written; they are tried again.",
        lambda sources: sources.parts.led_shares.dead_letters.writer.totals.failures,
    ),
    gauge(
        "sordini_dlq_records_queued",
        "Dead letters that are not written yet.",
        lambda sources: sources.parts.led_shares.dead_letters.writer.waiting,
    ),
    gauge(
        "sordini_dlq_share_partitions_failing",
        "Share partitions whose dead letters cannot be written at present; the log has the reason.",
        lambda sources: sources.parts.led_shares.dead_letters.writer.failing,
    ),
)
