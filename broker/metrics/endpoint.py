"""GET /metrics for Prometheus, and GET /healthz, /readyz and /health for health checks.

/healthz   200 while the event loop answers, from before the start is complete until the end
/readyz    200 when clients should be sent here, else 503 and the reasons, one a line
/health    200 while the broker serves, else 503 and its state
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.broker.metrics.exporter import CONTENT_TYPE, FAMILIES, render
from sordini.broker.metrics.families import MetricSources
from sordini.broker.metrics.kafka_families import kafka_families
from sordini.broker.metrics.latency import TimedService
from sordini.broker.metrics.readiness import reasons
from sordini.broker.network.http import HttpResponse, HttpServer, served_by_path
from sordini.broker.network.ports import Service
from sordini.replication.ports import Logger
from sordini.system.clock import monotonic_ns


class MetricsEndpoint:
    """The HTTP endpoint, and the service whose requests it times."""

    def __init__(self, service: Service, log: Logger, *, has_kafka_names: bool = True) -> None:
        """Processors call `self.service` instead of `service`. `has_kafka_names`: `sordini.metrics.kafka.names`."""
        self._families = (*FAMILIES, *kafka_families()) if has_kafka_names else FAMILIES
        self.service = TimedService(service, monotonic_ns)
        paths = {
            "/metrics": self._metrics,
            "/health": self._health,
            "/healthz": self._alive,
            "/readyz": self._ready,
        }
        self._http = HttpServer(served_by_path(paths), log)
        self._rendering, self._checking = asyncio.Lock(), asyncio.Lock()
        self._sources: MetricSources | None = None
        self._trouble: Callable[[], str] = lambda: "starting"

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and report that the broker is starting; returns the real address. Raises OSError."""
        return await self._http.start(host, port)

    def open(self, sources: MetricSources, trouble: Callable[[], str]) -> None:
        """Serve metrics from now on. `trouble` returns why the broker does not serve, or an empty text."""
        self._sources = sources
        self._trouble = trouble

    async def close(self) -> None:
        await self._http.close()

    async def _metrics(self) -> HttpResponse:
        if self._sources is None:
            return await self._health()
        async with self._rendering:  # One at a time: its memory grows with the partitions.
            return HttpResponse(200, await render(self._families, self._sources), CONTENT_TYPE)

    async def _alive(self) -> HttpResponse:
        return HttpResponse(200, [b"ok\n"])

    async def _ready(self) -> HttpResponse:
        if self._sources is None or self._trouble():
            return await self._health()
        sources = self._sources
        async with self._checking:
            found = await reasons(sources.parts, sources.contact, sources.broker_id)
        text = "".join(f"{reason}\n" for reason in found) or "ok\n"
        return HttpResponse(503 if found else 200, [text.encode(errors="backslashreplace")])

    async def _health(self) -> HttpResponse:
        trouble = self._trouble()
        return HttpResponse(503 if trouble else 200, [f"{trouble or 'ok'}\n".encode()])
