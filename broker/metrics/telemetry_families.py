"""Metrics that clients have pushed (KIP-714), and how their pushes were answered. There are none without telemetry.

The values of clients are as many as `sordini.client.telemetry.series.max` says, whatever clients push.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sordini.broker.metrics.families import MetricFamily, MetricKind, MetricSources, Sample
from sordini.broker.metrics.telemetry.client_telemetry import ClientTelemetry
from sordini.broker.metrics.telemetry.machine.subscriptions import instance_text


def _number(kind: MetricKind, name: str, meaning: str, read: Callable[[ClientTelemetry], float]) -> MetricFamily:
    def samples(sources: MetricSources) -> Iterable[Sample]:
        telemetry = sources.parts.telemetry
        return [] if telemetry is None else [((), read(telemetry))]

    return MetricFamily(name, kind, meaning, (), samples)


def _pushes(sources: MetricSources) -> Iterator[Sample]:
    if sources.parts.telemetry is not None:
        for result, count in list(sources.parts.telemetry.results.items()):
            if count:
                yield (result,), count


def _values(sources: MetricSources) -> Iterator[Sample]:
    telemetry = sources.parts.telemetry
    for instance_id in [] if telemetry is None else telemetry.instances.ids():
        assert telemetry is not None
        instance = telemetry.instances.get(instance_id)
        if instance is None:
            continue  # Forgotten since the scrape began.
        client = instance.client
        who = (instance_text(instance_id), client.client_id or "", client.software_name)
        for name, figure in list(instance.figures.items()):
            labels = ",".join(f"{key}={value}" for key, value in name.labels)
            yield (*who, name.metric, labels), figure.value


TELEMETRY_FAMILIES = (
    _number(
        MetricKind.GAUGE,
        "sordini_client_telemetry_clients",
        "Instances of clients that are remembered (bounded by sordini.client.telemetry.clients.max).",
        lambda telemetry: len(telemetry.instances),
    ),
    _number(
        MetricKind.COUNTER,
        "sordini_client_telemetry_clients_evicted_total",
        "Instances of clients that were forgotten for others, because there were too many.",
        lambda telemetry: telemetry.instances.evicted,
    ),
    _number(
        MetricKind.GAUGE,
        "sordini_client_telemetry_series",
        "Values of clients' metrics that are kept (bounded by sordini.client.telemetry.series.max).",
        lambda telemetry: telemetry.instances.bounds.series,
    ),
    _number(
        MetricKind.COUNTER,
        "sordini_client_telemetry_series_dropped_total",
        "Pushed values that were not kept: too many of a client or of all, or with names that are too long.",
        lambda telemetry: telemetry.instances.bounds.dropped,
    ),
    MetricFamily(
        "sordini_client_telemetry_pushes_total",
        MetricKind.COUNTER,
        "Pushes of clients, by the error they were answered with; NONE: accepted.",
        ("error",),
        _pushes,
    ),
    _number(
        MetricKind.COUNTER,
        "sordini_client_telemetry_bytes_total",
        "Bytes of accepted pushes, as they came.",
        lambda telemetry: telemetry.bytes_read,
    ),
    _number(
        MetricKind.COUNTER,
        "sordini_client_telemetry_cpu_seconds_total",
        "Processor time for reading pushes, in a process of its own.",
        lambda telemetry: telemetry.cpu_ms / 1000,
    ),
    _number(
        MetricKind.COUNTER,
        "sordini_client_telemetry_process_failures_total",
        "Processes that died, or had to be ended, while they read a push.",
        lambda telemetry: telemetry.reader.died,
    ),
    MetricFamily(
        "sordini_client_metric",
        MetricKind.GAUGE,
        "The newest value of each metric that clients have pushed to this broker; counters as totals.",
        ("client_instance_id", "client_id", "client_software_name", "metric", "attributes"),
        _values,
    ),
)
