"""GET /metrics for Prometheus, and GET /health for health checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.broker.clock import monotonic_ns
from sordini.broker.metrics.exporter import CONTENT_TYPE, FAMILIES, render
from sordini.broker.metrics.families import MetricSources
from sordini.broker.metrics.latency import TimedService
from sordini.broker.network.http import HttpResponse, HttpServer, served_by_path
from sordini.broker.network.ports import Service
from sordini.replication.ports import Logger


class MetricsEndpoint:
    """The HTTP endpoint, and the service whose requests it times."""

    def __init__(self, service: Service, log: Logger) -> None:
        """Processors call `self.service` instead of `service`."""
        self.service = TimedService(service, monotonic_ns)
        paths = {"/metrics": self._metrics, "/health": self._health}
        self._http = HttpServer(served_by_path(paths), log)
        self._rendering = asyncio.Lock()
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
            return HttpResponse(200, await render(FAMILIES, self._sources), CONTENT_TYPE)

    async def _health(self) -> HttpResponse:
        trouble = self._trouble()
        return HttpResponse(503 if trouble else 200, [f"{trouble or 'ok'}\n".encode()])
