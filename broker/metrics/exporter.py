"""Metrics as the Prometheus text format, written by prometheus-client a few samples at a time.

The loop serves requests after each piece, so with ten thousand partitions a request waits for one piece at most.
prometheus-client is imported with this module, which is imported when the endpoint is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from sordini.broker.metrics.broker_families import BROKER_FAMILIES
from sordini.broker.metrics.cleaner_families import CLEANER_FAMILIES
from sordini.broker.metrics.families import Histogram, Kind, MetricFamily, MetricSources, Sample
from sordini.broker.metrics.latency import BITS
from sordini.broker.metrics.log_families import LOG_FAMILIES
from sordini.broker.metrics.record_families import RECORD_FAMILIES

FAMILIES: tuple[MetricFamily, ...] = (*BROKER_FAMILIES, *LOG_FAMILIES, *CLEANER_FAMILIES, *RECORD_FAMILIES)

ROWS_PER_SLICE = 200
"""About a millisecond's work."""

BUCKET_BITS = range(13, 36)
"""Bucket bounds are powers of two nanoseconds: from 8 µs to 34 s."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def render(families: Sequence[MetricFamily], sources: MetricSources) -> list[bytes]:
    """The families' text in pieces."""
    pieces: list[bytes] = []
    for family in families:
        for number, rows in enumerate(_portions(family.read(sources))):
            pieces.append(_text(_metric(family, rows), with_head=number == 0))
            await asyncio.sleep(0)
    pieces.extend(_text(metric, with_head=True) for metric in ProcessCollector(registry=None).collect())
    return pieces


def _portions(rows: Iterable[Sample]) -> Iterator[list[Sample]]:
    """At least one, which may be empty: a family without samples has its header lines, too."""
    left = iter(rows)
    portion = list(islice(left, ROWS_PER_SLICE))
    yield portion
    while len(portion) == ROWS_PER_SLICE:
        portion = list(islice(left, ROWS_PER_SLICE))
        if portion:
            yield portion


def _metric(family: MetricFamily, rows: Sequence[Sample]) -> Metric:
    labels = family.labels
    if family.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, family.meaning, labels=labels)
        for values, durations in rows:
            assert isinstance(durations, Histogram)
            histogram.add_metric(values, _buckets(durations.counts), durations.nanoseconds / 1e9)
        return histogram
    metric: CounterMetricFamily | GaugeMetricFamily
    if family.kind is Kind.COUNTER:
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
