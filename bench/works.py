"""The kinds of work that are measured, and one measurement of one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bench.client import load
from bench.procfs import cpu_seconds
from tests.outside.processes import BrokerProcess

PARTITIONS = 4


class Work(NamedTuple):
    """name: as the table calls it; kind and flags: the load generator's."""

    name: str
    kind: str
    records: int
    codec: str = "none"
    connections: int = 1
    idempotent: bool = False

    @property
    def is_single(self) -> bool:
        return self.kind == "single"


class Figures(NamedTuple):
    """per_second: records (single: requests); cpu_us: the broker's, per record or request; latencies in µs."""

    per_second: float
    cpu_us: float
    p50_us: float
    p99_us: float


BATCHED = [
    Work("produce, 64 KiB batches, acks=1", "produce", 2_000_000),
    Work("consume from the page cache", "consume", 2_000_000),
    *(
        Work(f"produce, {codec} passed through", "produce", 300_000, codec=codec)
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ),
]
SINGLE = [
    Work("one record per request, 1 in flight", "single", 20_000),
    Work("one record per request, 16 connections", "single", 40_000, connections=16),
]
WORKS = BATCHED + SINGLE


class Bench:
    """One running broker with its topics."""

    def __init__(self, label: str, process: BrokerProcess) -> None:
        self.label = label
        self.process = process
        self._topics = 0

    def new_topic(self, partitions: int = PARTITIONS, **flags: object) -> str:
        self._topics += 1
        topic = f"bench-{self._topics}"
        load(self.process.bootstrap, "create", topic, partitions=partitions, **flags)
        return topic

    def filled_topic(self, records: int) -> str:
        """A topic that holds so many records, for work that reads them."""
        topic = self.new_topic()
        load(self.process.bootstrap, "produce", topic, records=records)
        return topic

    def drop_topic(self, topic: str) -> None:
        load(self.process.bootstrap, "delete", topic)

    def measure_afresh(self, work: Work) -> Figures:
        """Work that writes, on a topic of its own: what earlier runs wrote is not flushed under this one."""
        topic = self.new_topic()
        seen = self.measure(work, topic)
        self.drop_topic(topic)
        return seen

    def measure(self, work: Work, topic: str) -> Figures:
        before = cpu_seconds(self.process.pid)
        seen = load(
            self.process.bootstrap,
            work.kind,
            topic,
            records=work.records,
            codec=work.codec,
            connections=work.connections,
            partitions=PARTITIONS,
            idempotent=work.idempotent,
        )
        used = cpu_seconds(self.process.pid) - before
        return Figures(seen.per_second, used / seen.records * 1e6, seen.p50_us, seen.p99_us)


def settle(measure: Callable[[], Figures], *, runs_max: int = 10, within: float = 0.05) -> int | None:
    """Repeat until CPU per record of three runs in a row agrees; how many runs it took, or None if it never did."""
    costs: list[float] = []
    for run in range(1, runs_max + 1):
        costs.append(measure().cpu_us)
        last = costs[-3:]
        if len(last) == 3 and max(last) - min(last) <= within * max(last):
            return run
    return None
