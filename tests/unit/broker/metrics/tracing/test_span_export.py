"""The queue of slow requests: what is dropped and counted, and that an exporter's trouble stays its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sordini.broker.metrics.families import MetricSources
from sordini.broker.metrics.tracing.span_export import BATCH_MAX, WAITING_MAX, Outcome, SpanExport
from sordini.broker.metrics.tracing.spans import Span
from sordini.broker.metrics.tracing_families import TRACING_FAMILIES
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.served_apis import APIS
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import a_peer

RESOURCE = {"service.name": "sordini"}
MILLISECOND = 1_000_000


class Exporter:
    """An exporter that answers when, and what, a test says."""

    def __init__(self) -> None:
        self.exported: list[Span] = []
        self.batches: list[int] = []
        self.failure: str | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def check(self) -> None:
        """Nothing is needed."""

    async def export(self, resource: Mapping[str, str], spans: Sequence[Span]) -> str | None:
        assert resource == RESOURCE
        self.batches.append(len(spans))
        await self.gate.wait()
        if self.failure is None:
            self.exported += spans
        return self.failure

    async def close(self) -> None:
        """There is no process."""


class Site:
    """The export of a broker whose requests take `cost_ms`."""

    def __init__(self, slow_ms: int = 10, per_second_max: int = 1_000_000) -> None:
        self.exporter, self.clock, self.log = Exporter(), StillClock(), ListLog()
        self.cost_ms = 20
        self.export = SpanExport(
            self.exporter,
            RESOURCE,
            lambda _id: None,
            self.clock,
            self.log,
            slow_ms=slow_ms,
            per_second_max=per_second_max,
        )
        self.service = self.export.in_front_of(self, lambda: self.clock.ms * MILLISECOND)
        self.answer: Any = [bytes(8)]

    def serve(self, _peer: Any, _frame: memoryview) -> Any:
        self.clock.ms += self.cost_ms
        return self.answer

    def ask(self, count: int = 1, key: ApiKey = ApiKey.METADATA, body: Any = None, version: int = 9) -> None:
        message = codecs.encode(MetadataRequest() if body is None else body, version)
        frame = request_header(APIS[key], version, 1, "me") + message
        for _ in range(count):
            self.service.serve(a_peer(), memoryview(bytearray(frame)))

    def counts(self) -> dict[str, int]:
        sources: Any = type("Sources", (), {"tracing": self.export})
        return {labels[0]: int(value) for labels, value in _samples(sources)}


def _samples(sources: MetricSources) -> list[Any]:
    return [sample for sample in TRACING_FAMILIES[0].read(sources) if sample is not None]


class Running:
    """The export's task, ended in the end."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._site.export.run())

    async def __aexit__(self, *_failure: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled()


async def settled(site: Site) -> None:
    """Until everything that can run has run."""
    for _ in range(10 * WAITING_MAX):
        await asyncio.sleep(0)


async def test_slow_requests_are_exported_in_batches_with_the_time_of_day() -> None:
    site = Site()
    site.ask(BATCH_MAX + 1)
    last_ns = site.clock.ms * MILLISECOND
    async with Running(site):
        await settled(site)
    assert site.exporter.batches == [BATCH_MAX, 1]
    assert site.exporter.exported[-1].ended_ns == last_ns
    assert site.exporter.exported[-1].began_ns == last_ns - site.cost_ms * MILLISECOND
    assert site.counts() == {"exported": BATCH_MAX + 1, "over_rate": 0, "queue_full": 0, "failed": 0}
    assert site.log.lines == []


async def test_quick_requests_and_the_requested_wait_of_a_fetch_are_no_slow_ones() -> None:
    site = Site()
    site.cost_ms = 9
    site.ask()
    site.cost_ms = 10
    site.ask(key=ApiKey.FETCH, body=FetchRequest(max_wait_ms=9_999))  # It did not wait: its handler took long.
    assert site.export.waiting == 1


async def test_an_exporter_that_hangs_fills_the_queue_and_what_is_beyond_it_is_counted() -> None:
    site = Site()
    site.exporter.gate.clear()
    async with Running(site):
        site.ask()
        await settled(site)
        site.ask(WAITING_MAX + 7)
        await settled(site)
        assert (site.export.waiting, site.counts()["queue_full"]) == (WAITING_MAX, 7)
        site.exporter.gate.set()
        await settled(site)
    assert site.counts() == {"exported": WAITING_MAX + 1, "over_rate": 0, "queue_full": 7, "failed": 0}


async def test_requests_beyond_the_rate_are_counted_before_they_take_room() -> None:
    site = Site(per_second_max=3)
    site.cost_ms = 10
    site.ask(13)  # Within 0.13 s.
    assert (site.export.waiting, site.counts()["over_rate"]) == (3, 10)


async def test_a_lasting_failure_is_one_line_at_its_begin_and_one_at_its_end() -> None:
    site = Site()
    async with Running(site):
        for failure in (None, "refused", "refused", "another", None, None):
            site.exporter.failure = failure
            site.ask()
            await settled(site)
    assert site.log.lines == [
        ("warning", "traces not exported", {"reason": "refused"}),
        ("info", "traces exported again", {"failed": 3}),
    ]
    assert site.counts() == {"exported": 3, "over_rate": 0, "queue_full": 0, "failed": 3}
    assert site.export.outcomes[Outcome.FAILED] == 3
