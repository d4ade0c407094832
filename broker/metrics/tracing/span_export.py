"""The slow requests of one broker on their way to a collector.

    request ── slow? ── rate? ── room? ──► queue ──► spans ──► exporter (a child process) ──► collector
               │ no     │ no     │ no                                 │ failed
               '        over_rate queue_full                          failed

Nothing waits for a collector but the queue, which is bounded: what does not fit is dropped and counted. Spans are made
by a task, one request in a slice of the loop's time: two messages are decoded, of HEAD_BYTES_MAX and ANSWER_BYTES_MAX.
What is queued when the broker stops is dropped, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from sordini.broker.metrics.tracing.message_rows import NameOf
from sordini.broker.metrics.tracing.ports import SpanExporter
from sordini.broker.metrics.tracing.slow_request import (
    MILLISECOND,
    Origin,
    RequestRate,
    SlowRequest,
    Times,
    slow_part_ns,
)
from sordini.broker.metrics.tracing.spans import Span, span_of
from sordini.broker.metrics.tracing.traced_service import Measured, TracedService, kept
from sordini.broker.network.ports import Peer, Service
from sordini.replication.ports import Clock, Logger

WAITING_MAX: Final = 256
"""Slow requests that wait for their export; with what is kept of each, at most 20 MiB."""
BATCH_MAX: Final = 32
"""Slow requests of one export."""
UNKNOWN: Final = "unknown"
"""The software of a peer that has not named it."""


class Outcome(Enum):
    """What became of a slow request."""

    EXPORTED = "exported"
    OVER_RATE = "over_rate"
    QUEUE_FULL = "queue_full"
    FAILED = "failed"


class SpanExport:
    """Takes slow requests, and has them exported by `run`."""

    def __init__(
        self,
        exporter: SpanExporter,
        resource: Mapping[str, str],
        name_of: NameOf,
        clock: Clock,
        log: Logger,
        *,
        slow_ms: int,
        per_second_max: int,
    ) -> None:
        self.outcomes: Counter[Outcome] = Counter(dict.fromkeys(Outcome, 0))
        self._exporter = exporter
        self._resource = resource
        self._name_of = name_of
        self._clock = clock
        self._log = log
        self._slow_ns = slow_ms * MILLISECOND
        self._rate = RequestRate(per_second_max)
        self._waiting: deque[SlowRequest] = deque()
        self._arrived = asyncio.Event()
        self._is_failing = False

    @property
    def waiting(self) -> int:
        """Slow requests in the queue."""
        return len(self._waiting)

    def in_front_of(self, service: Service, now_ns: Callable[[], int]) -> TracedService:
        """A service that serves as `service` does; `now_ns` is a monotonic clock in nanoseconds."""
        return TracedService(service, now_ns, self._slow_ns, self._take)

    def _take(self, measured: Measured) -> None:
        _, head, size, began_ns, handled_ns, ended_ns, sliced_ns, was_blocking, parts = measured
        wall_ns = self._clock.now_ms() * MILLISECOND - (ended_ns - began_ns)
        times = Times(wall_ns, handled_ns - began_ns, ended_ns - handled_ns, sliced_ns)
        if slow_part_ns(head, times) < self._slow_ns:
            return
        if not self._rate.admits(ended_ns):
            self.outcomes[Outcome.OVER_RATE] += 1
        elif len(self._waiting) >= WAITING_MAX:
            self.outcomes[Outcome.QUEUE_FULL] += 1
        else:
            answer, answer_bytes = kept(parts)
            origin = _origin(measured.peer)
            self._waiting.append(SlowRequest(times, was_blocking, head, size, answer, answer_bytes, origin))
            self._arrived.set()

    async def run(self) -> None:
        """Export until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._export([self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX))])

    async def _export(self, requests: list[SlowRequest]) -> None:
        spans: list[Span] = []
        for request in requests:
            span = span_of(request, self._name_of)
            if span is not None:
                spans.append(span)
            await asyncio.sleep(0)
        failure = await self._exporter.export(self._resource, spans)
        self.outcomes[Outcome.EXPORTED if failure is None else Outcome.FAILED] += len(spans)
        self._log_change(failure)

    def _log_change(self, failure: str | None) -> None:
        """A line when exports begin to fail, and one when they succeed again."""
        if failure is not None and not self._is_failing:
            self._log.warning("traces not exported", reason=failure)
        elif failure is None and self._is_failing:
            self._log.info("traces exported again", failed=self.outcomes[Outcome.FAILED])
        self._is_failing = failure is not None


def _origin(peer: Peer) -> Origin:
    software = "" if peer.software_name == UNKNOWN else f"{peer.software_name} {peer.software_version}"
    return Origin(peer.address, peer.port, peer.connection_id, peer.listener, str(peer.principal), software)
