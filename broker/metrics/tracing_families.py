"""What became of slow requests, where they are traced. There are no samples without tracing."""

from __future__ import annotations

from collections.abc import Iterator

from sordini.broker.metrics.families import MetricFamily, MetricKind, MetricSources, Sample


def _outcomes(sources: MetricSources) -> Iterator[Sample]:
    if sources.tracing is not None:
        for outcome, count in sources.tracing.outcomes.items():
            yield (outcome.value,), count


def _waiting(sources: MetricSources) -> Iterator[Sample]:
    if sources.tracing is not None:
        yield (), sources.tracing.waiting


TRACING_FAMILIES = (
    MetricFamily(
        "sordini_traced_requests_total",
        MetricKind.COUNTER,
        "Slow requests by what became of their spans: exported, or dropped because there were too many "
        "(over_rate: sordini.tracing.requests.per.second.max), the queue was full, or the export failed.",
        ("outcome",),
        _outcomes,
    ),
    MetricFamily(
        "sordini_traced_requests_queued",
        MetricKind.GAUGE,
        "Slow requests whose spans wait to be exported.",
        (),
        _waiting,
    ),
)
