"""GET /metrics of a mirror, in Prometheus' text format. prometheus-client is imported with this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sordini.broker.metrics.exporter import CONTENT_TYPE
from sordini.broker.network.http import HttpResponse, HttpServer, served_by_path
from sordini.client.addresses import Address
from sordini.mirror.figures import Figures
from sordini.mirror.flow import Flow
from sordini.replication.ports import Logger
from sordini.system.named_tuple import NamedTuple


class Family(NamedTuple):
    """One metric with a value for each source."""

    name: str
    kind: type[CounterMetricFamily | GaugeMetricFamily]
    meaning: str
    read: Callable[[Figures], float]


FAMILIES: Final = (
    Family("records", CounterMetricFamily, "Records copied and committed.", lambda one: one.records),
    Family("bytes", CounterMetricFamily, "Bytes of batches copied and committed.", lambda one: one.bytes),
    Family("batches", CounterMetricFamily, "Batches copied and committed.", lambda one: one.batches),
    Family(
        "opened_batches",
        CounterMetricFamily,
        "Batches of the source that could not pass as they were.",
        lambda one: one.opened_batches,
    ),
    Family("transactions", CounterMetricFamily, "Transactions committed in the target.", lambda one: one.transactions),
    Family(
        "lost_records",
        CounterMetricFamily,
        "Offsets that the source deleted before they were copied.",
        lambda one: one.lost_records,
    ),
    Family("failures", CounterMetricFamily, "Times that copying began again after an error.", lambda one: one.failures),
    Family("up", GaugeMetricFamily, "1 while the source is being copied.", lambda one: one.is_running),
    Family(
        "exactly_once",
        GaugeMetricFamily,
        "1 where copies are made in transactions, 0 where at least once.",
        lambda one: one.delivery == "exactly once",
    ),
    Family("groups", GaugeMetricFamily, "Groups with a translated offset.", lambda one: one.groups),
)
"""Each has the label `source`, and `sordini_mirror_` before its name."""

LAG: Final = "sordini_mirror_lag_records"
LAG_MEANING: Final = "Committed records of the source that are not copied yet."


class FlowCollector(Collector):
    """What Prometheus reads of some flows."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self._flows = flows

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            metric: Any = family.kind(f"sordini_mirror_{family.name}", family.meaning, labels=("source",))
            for flow in self._flows:
                metric.add_metric((flow.alias,), family.read(flow.figures))
            yield metric
        lag = GaugeMetricFamily(LAG, LAG_MEANING, labels=("source", "topic", "partition"))
        for flow in self._flows:
            for partition, behind in flow.figures.lags.items():
                lag.add_metric((flow.alias, partition.topic, str(partition.partition)), behind)
        yield lag


class MirrorMetrics:
    """The endpoint."""

    def __init__(self, flows: Sequence[Flow], log: Logger) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(FlowCollector(flows))
        ProcessCollector(registry=self._registry)
        self._flows = flows
        self._http = HttpServer(served_by_path({"/metrics": self._metrics, "/health": self._health}), log)

    async def listen(self, address: Address) -> tuple[str, int]:
        """Listen; returns the real address. Raises OSError."""
        return await self._http.start(address.host, address.port)

    async def close(self) -> None:
        await self._http.close()

    async def _metrics(self) -> HttpResponse:
        return HttpResponse(200, [generate_latest(self._registry)], CONTENT_TYPE)

    async def _health(self) -> HttpResponse:
        trouble = "; ".join(f"{flow.alias}: {flow.figures.problem}" for flow in self._flows if flow.figures.problem)
        return HttpResponse(503 if trouble else 200, [f"{trouble or 'ok'}\n".encode()])
