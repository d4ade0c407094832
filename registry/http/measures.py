"""What is measured of a registry, as Prometheus has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from sordini.registry.judging.judges import Judge
from sordini.registry.registry import Registry

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
UNKNOWN: Final = "other"
"""The path of requests that lead nowhere: their addresses are without bound."""
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""A client may send any other word."""


class Measures:
    """Counts requests, and reads the rest when it is asked for."""

    def __init__(self, registry: Registry, judge: Judge) -> None:
        self._registry = registry
        self._judge = judge
        self._collected = CollectorRegistry()
        self._requests = Counter(
            "sordini_registry_requests",
            "Requests, by method, path and status.",
            ("method", "path", "status"),
            registry=self._collected,
        )
        self._seconds = Histogram(
            "sordini_registry_request_seconds",
            "Time from a request's head to its answer.",
            ("method",),
            registry=self._collected,
        )
        self._collected.register(self)
        ProcessCollector(registry=self._collected)

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request was answered; `path` is that of its route."""
        method = method if method in METHODS else UNKNOWN
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(method).observe(seconds)

    def text(self) -> str:
        """All of it."""
        return generate_latest(self._collected).decode()

    def describe(self) -> list[Metric]:
        """As prometheus-client asks for it: nothing is collected when this is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What is read of the state."""
        state = self._registry.state
        yield GaugeMetricFamily("sordini_registry_subjects", "Subjects.", len(state.subjects))
        yield GaugeMetricFamily("sordini_registry_schemas", "Ids that have versions.", state.schema_count())
        yield GaugeMetricFamily("sordini_registry_end_offset", "Records read of the topic.", state.end_offset)
        yield CounterMetricFamily("sordini_registry_malformed_records", "Records that were skipped.", state.malformed)
        writes = int(self._registry.journal.is_writer)
        yield GaugeMetricFamily("sordini_registry_is_writer", "Whether this registry writes to the topic.", writes)
        yield CounterMetricFamily("sordini_registry_parsed_schemas", "Schemas parsed.", self._judge.count)
        yield CounterMetricFamily(
            "sordini_registry_parse_seconds", "Time for which schemas were parsed and compared.", self._judge.seconds
        )
