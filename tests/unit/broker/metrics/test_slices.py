"""No slice of a scrape reads more than a number of elements, of whatever kind they are: partitions, logs, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState
from sordini.broker.metrics.exporter import FAMILIES, LINES_PER_SLICE, STEPS_PER_LINE, render
from sordini.broker.metrics.families import Histogram, MetricFamily, MetricKind, MetricSources, Sample, Step, tally
from sordini.broker.metrics.kafka_families import kafka_families
from sordini.broker.metrics.latency import BITS
from sordini.broker.metrics.topic_traffic import TopicTraffic
from sordini.protocol.types import NO_TOPIC_ID, TopicPartition
from tests.support.unit_broker import ME, a_broker, known_broker, led
from tests.unit.broker.metrics.test_exporter import read
from tests.unit.broker.metrics.test_readings import Scraped

STEPS_PER_SLICE = LINES_PER_SLICE * STEPS_PER_LINE
COUNT = 3 * STEPS_PER_SLICE
OFFSETS_PER_GROUP = 10
NOTHING: Any = None


class Meter:
    """How many elements are read while nothing else of the loop runs."""

    def __init__(self) -> None:
        self.most = self.total = self._now = 0
        self._last: object = None

    def touch(self, element: object) -> None:
        if element is not self._last:
            self._last = element
            self._now += 1
            self.total += 1
            self.most = max(self.most, self._now)

    async def watch(self) -> None:
        while True:
            self._now = 0
            await asyncio.sleep(0)

    async def render(self, family: MetricFamily, sources: MetricSources) -> str:
        self.most = self.total = 0
        watching = asyncio.ensure_future(self.watch())
        try:
            await asyncio.sleep(0)
            return b"".join(await render([family], sources)).decode()
        finally:
            watching.cancel()


class Element:
    """A real object, whose readings are counted; `others` are in place of its own attributes."""

    def __init__(self, meter: Meter, real: object, **others: object) -> None:
        self._meter, self._real, self._others = meter, real, others

    def __getattr__(self, name: str) -> Any:
        self._meter.touch(self)
        return self._others[name] if name in self._others else getattr(self._real, name)


class Instead:
    """A real object with some attributes of a test's."""

    def __init__(self, real: object, **others: object) -> None:
        self._real = real
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class ManyReplicas(Instead):
    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)


def many(scraped: Scraped, meter: Meter) -> MetricSources:
    """The sources of a broker whose partitions, logs, topics and groups are many: each one is its real one."""
    parts = scraped.broker.parts
    (partition,), (log,) = list(parts.replicas), parts.logs.logs()
    names = [TopicPartition(f"topic-{number % 100}", number // 100) for number in range(COUNT)]
    replicas = ManyReplicas(
        parts.replicas,
        partitions=[Element(meter, partition, name=name) for name in names],
        get=lambda topic, index: partition,
    )
    logs = Instead(parts.logs, logs=lambda: [Element(meter, log, topic_partition=name) for name in names])
    known = {index: Element(meter, led()) for index in range(COUNT)}
    topics = {"large": SimpleNamespace(name="large", partitions=known)}
    topics |= {f"small-{n}": Element(meter, None, name=f"small-{n}", partitions={}) for n in range(COUNT)}  # type: ignore[misc]
    groups = [Element(meter, Group(f"group-{n}", GroupState.EMPTY), group_id=f"group-{n}") for n in range(COUNT)]
    committed = CommittedOffset(0, -1, "", 0)
    return scraped.sources._replace(
        parts=cast(
            "Any",
            Instead(parts, replicas=replicas, logs=logs, metadata=Instead(parts.metadata, topics=topics)),
        ),
        groups=cast(
            "Any",
            SimpleNamespace(
                groups=lambda: groups,
                offsets=lambda _: {name: Element(meter, committed) for name in names[:OFFSETS_PER_GROUP]},
            ),
        ),
    )


@pytest.mark.parametrize("is_offline", [False, True])
async def test_no_family_reads_more_elements_in_a_slice_than_its_bound(is_offline: bool) -> None:
    """`is_offline`: nothing has a sample, as the log directory has failed and this broker leads no partition."""
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.parts.metadata.set_brokers(ME, [known_broker(ME)])
        broker.parts.metadata.set_partition("orders", NO_TOPIC_ID, 0, led())
        scraped, meter = Scraped(broker), Meter()
        sources = many(scraped, meter)
        if is_offline:
            broker.parts.replicas.resign_all()
            broker.logs.logs()[0].log_dir.take_offline(OSError(5, "Input/output error"))
        walks = 0
        for family in (*FAMILIES, *kafka_families()):
            text = await meter.render(family, sources)
            assert f"# TYPE {family.name}" in text
            assert meter.most <= STEPS_PER_SLICE + 1, family.name  # The one that is read when the slice is full.
            walks += meter.total >= STEPS_PER_SLICE
        assert walks > 30, "families that read many elements"
        await scraped.sockets.close(0)


def a_gauge(steps: list[Step], name: str = "a_thing", kind: MetricKind = MetricKind.GAUGE) -> MetricFamily:
    return MetricFamily(name, kind, "What it is.", ("n",), lambda _: steps)


async def pauses_of(family: MetricFamily) -> int:
    """How often the loop runs something else while this is rendered."""
    pauses = -1

    async def others() -> None:
        nonlocal pauses
        while True:
            pauses += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    await render([family], NOTHING)
    running.cancel()
    return pauses


async def test_a_histogram_counts_as_many_lines_as_it_has() -> None:
    counts = [0] * (BITS + 1)
    rows: list[Step] = [((str(number),), Histogram(counts, 0)) for number in range(LINES_PER_SLICE)]
    numbers: list[Step] = [((str(number),), 0) for number in range(LINES_PER_SLICE)]
    text = b"".join(await render([a_gauge(rows, kind=MetricKind.HISTOGRAM)], NOTHING)).decode()
    lines = sum(line.startswith("a_thing") for line in text.splitlines())
    assert lines > 20 * LINES_PER_SLICE
    assert await pauses_of(a_gauge(numbers)) == 2
    assert await pauses_of(a_gauge(rows, kind=MetricKind.HISTOGRAM)) > 20


@pytest.mark.parametrize("count", [0, 1, STEPS_PER_SLICE, 3 * STEPS_PER_SLICE + 1])
async def test_elements_without_samples_leave_no_lines_and_the_header_is_written_once(count: int) -> None:
    nothing: list[Step] = [None] * count
    last: list[Step] = [*nothing, (("last",), 5)]
    for steps, expected in ((nothing, {}), (last, {("a_thing", (("n", "last"),)): 5})):
        text = b"".join(await render([a_gauge(steps)], NOTHING)).decode()
        assert text.count("# TYPE a_thing ") == 1
        assert read(text) == expected


def test_a_tally_is_the_sum_over_its_elements_and_a_step_for_each() -> None:
    family = tally("a_thing", "What it is.", lambda _: [2, 3, 5], lambda number: number * 10)
    expected: list[Sample | None] = [None, None, None, ((), 100)]
    assert list(family.read(NOTHING)) == expected


async def test_a_scrape_that_ends_early_counts_nothing_twice() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 3)
        scraped, traffic = Scraped(broker), TopicTraffic()
        for index in range(3):
            scraped.produce("orders", 1, index=index)
        reading = traffic.records(broker.parts.replicas)
        for _ in range(2):
            assert next(reading) is None
        del reading
        assert [row for row in traffic.records(broker.parts.replicas) if row] == [("orders", 9)]
        await scraped.sockets.close(0)
