"""Metrics as the Prometheus text format, written by prometheus-client a few samples at a time.

The loop serves requests after each slice, so with ten thousand partitions a request waits for one slice at most.
A slice ends at a number of lines, or of elements that were read without a line: counting partitions takes time, too.
prometheus-client is imported with this module, which is imported when the endpoint is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from sordini.broker.metrics.broker_families import BROKER_FAMILIES
from sordini.broker.metrics.cleaner_families import CLEANER_FAMILIES
from sordini.broker.metrics.dead_letter_families import DEAD_LETTER_FAMILIES
from sordini.broker.metrics.families import Histogram, MetricFamily, MetricKind, MetricSources, Sample, Step
from sordini.broker.metrics.lag_families import LAG_FAMILIES
from sordini.broker.metrics.latency import BITS
from sordini.broker.metrics.log_families import LOG_FAMILIES
from sordini.broker.metrics.record_families import RECORD_FAMILIES
from sordini.broker.metrics.telemetry_families import TELEMETRY_FAMILIES
from sordini.broker.metrics.tracing_families import TRACING_FAMILIES

FAMILIES: tuple[MetricFamily, ...] = (
    *BROKER_FAMILIES,
    *LOG_FAMILIES,
    *LAG_FAMILIES,
    *CLEANER_FAMILIES,
    *RECORD_FAMILIES,
    *DEAD_LETTER_FAMILIES,
    *TELEMETRY_FAMILIES,
    *TRACING_FAMILIES,
)

LINES_PER_SLICE = 100
"""About a millisecond's work."""
STEPS_PER_LINE = 10
"""How many elements are read in the time of one line, at least."""

BUCKET_BITS = range(13, 36)
"""Bucket bounds are powers of two nanoseconds: from 8 µs to 34 s."""
LINES_PER_HISTOGRAM = len(BUCKET_BITS) + 3
"""The last bucket, the count and the sum."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def render(families: Sequence[MetricFamily], sources: MetricSources) -> list[bytes]:
    """The families' text in pieces."""
    pieces: list[bytes] = []
    for family in families:
        for number, rows in enumerate(_portions(family.read(sources))):
            if rows or number == 0:  # A family without samples has its header lines, too.
                pieces.append(_text(_metric(family, rows), with_head=number == 0))
            await asyncio.sleep(0)
    pieces.extend(_text(metric, with_head=True) for metric in ProcessCollector(registry=None).collect())
    return pieces


def _portions(steps: Iterable[Step]) -> Iterator[list[Sample]]:
    """The samples of each slice: at least one portion, and any may be empty."""
    rows: list[Sample] = []
    left = LINES_PER_SLICE * STEPS_PER_LINE
    for step in steps:
        if step is None:
            left -= 1
        else:
            rows.append(step)
            left -= STEPS_PER_LINE * (LINES_PER_HISTOGRAM if isinstance(step[1], Histogram) else 1)
        if left <= 0:
            yield rows
            rows, left = [], LINES_PER_SLICE * STEPS_PER_LINE
    yield rows


def _metric(family: MetricFamily, rows: Sequence[Sample]) -> Metric:
    labels = family.labels
    if family.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.meaning, labels=labels)
        for values, durations in rows:
            assert isinstance(durations, Histogram)
            histogram.add_metric(values, _buckets(durations.counts), durations.nanoseconds / 1e9)
        return histogram
    metric: CounterMetricFamily | GaugeMetricFamily
    if family.kind is MetricKind.COUNTER:
        metric = CounterMetricFamily(family.name, family.meaning, labels=labels)
    else:
        metric = GaugeMetricFamily(family.name, family.meaning, labels=labels)
    for values, number in rows:
        assert not isinstance(number, Histogram)
        metric.add_metric(values, number)
    return metric


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound in seconds: a number of b bits is less than 2 to the b."""
    bounded = [(str(2**bits / 1e9), float(sum(counts[: bits + 1]))) for bits in BUCKET_BITS]
    return [*bounded, ("+Inf", float(sum(counts[: BITS + 1])))]


class _Single:
    """A collector of one metric, as prometheus-client renders them."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


def _text(metric: Metric, *, with_head: bool) -> bytes:
    """The metric's lines; its two header lines are before the first portion only."""
    text = generate_latest(_Single(metric))
    return text if with_head else text.split(b"\n", 2)[2]
