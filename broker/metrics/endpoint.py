"""GET /metrics for Prometheus and GET /health for whoever asks whether this broker serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.broker.clock import monotonic_ns
from sordini.broker.metrics.exporter import CONTENT_TYPE, FAMILIES, render
from sordini.broker.metrics.families import Sources
from sordini.broker.metrics.latency import TimedService
from sordini.broker.network.http import Answer, HttpServer
from sordini.broker.network.ports import Log, Service


class MetricsEndpoint:
    """The port that is scraped, and the service whose requests it times."""

    def __init__(self, service: Service, log: Log) -> None:
        """Requests are to be given to `self.service` in place of `service`."""
        self.service = TimedService(service, monotonic_ns)
        self._http = HttpServer({"/metrics": self._metrics, "/health": self._health}, log)
        self._rendering = asyncio.Lock()
        self._sources: Sources | None = None
        self._trouble: Callable[[], str] = lambda: "starting"

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and say that the broker is starting; the real address. Raises OSError."""
        return await self._http.start(host, port)

    def open(self, sources: Sources, trouble: Callable[[], str]) -> None:
        """There is something to read now. `trouble` says why the broker does not serve, or nothing."""
        self._sources = sources
        self._trouble = trouble

    async def close(self) -> None:
        await self._http.close()

    async def _metrics(self) -> Answer:
        if self._sources is None:
            return await self._health()
        async with self._rendering:  # One at a time: what it holds meanwhile grows with the partitions.
            return Answer(200, await render(FAMILIES, self._sources), CONTENT_TYPE)

    async def _health(self) -> Answer:
        trouble = self._trouble()
        return Answer(503 if trouble else 200, [f"{trouble or 'ok'}\n".encode()])
