"""Rows about small requests that are no plain kind of work: how one broker is measured for each of them.

A row prepares what all its rounds need (a topic, a log that is read) and returns its figures for one round. The
client keeps a rate or makes a fixed number of requests, so CPU is compared at the same load on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bench import cold_reads
from bench.client import Load, load, paced
from bench.goals import Goal, ours_at_most
from bench.procfs import cpu_seconds
from bench.works import Bench

MESSAGE_BYTES = 10_000_000
LARGE_TOPIC = "max.message.bytes=11000000"
PARTITIONS_PER_TOPIC = 100
COLD_RECORD_BYTES = 1_024
# µs of the broker's CPU for each answer to one of fifty consumers before the small request was made fast: the goal
# is 0.4 of it.
TAILING_US_BEFORE = 100.0

Values = Mapping[str, float]


class Extent(NamedTuple):
    """How large everything is; `QUICK` proves that the harness works and measures nothing."""

    consumers: int
    tailing_records: int
    producers: int
    producer_seconds: int
    connections: int
    groups: int
    heartbeats: int
    messages: int
    cold_bytes: int
    partitions: int
    idle_seconds: float


FULL = Extent(50, 500, 500, 10, 2_000, 1_000, 10, 50, 2**30, 10_000, 10.0)
QUICK = Extent(5, 20, 20, 1, 50, 20, 2, 4, 2**24, 200, 1.0)


class Figure(NamedTuple):
    """key: of the row's values; label: with its unit, as the table calls it."""

    key: str
    label: str
    digits: int = 0
    goal: Goal | None = None


class Row(NamedTuple):
    """name: may use the fields of the extent."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Bench, Extent, str], Values]
    prepare: Callable[[Bench, Extent], str]

    def title(self, extent: Extent) -> str:
        return self.name.format(**extent._asdict())


def _nothing(_bench: Bench, _extent: Extent) -> str:
    return ""


def _tailing(bench: Bench, extent: Extent, _prepared: str) -> Values:
    topic = bench.new_topic(partitions=1)
    shape = {"members": extent.consumers, "requests": extent.tailing_records, "partitions": 1}
    seen, used = paced(bench.process, "tailing", topic, **shape)
    bench.drop_topic(topic)
    return {"cpu": used / seen.records * 1e6, **_latencies(seen)}


def _steady(bench: Bench, extent: Extent, topic: str) -> Values:
    shape = {"connections": extent.producers, "every": "500ms", "requests": 2 * extent.producer_seconds}
    seen, used = paced(bench.process, "steady", topic, **shape)
    return {"cpu": 100 * used / seen.seconds, **_latencies(seen)}


def _opened(bench: Bench, extent: Extent, _prepared: str) -> Values:
    seen, used = paced(bench.process, "opened", "none", connections=extent.connections)
    return {"seconds": seen.seconds, "cpu": used, **_latencies(seen)}


def _heartbeats(bench: Bench, extent: Extent, _prepared: str) -> Values:
    shape = {"groups": extent.groups, "group": f"beats-{time.monotonic_ns()}", "requests": extent.heartbeats}
    seen, used = paced(bench.process, "heartbeats", "none", **shape, every="1s")
    return {"cpu": 100 * used / seen.seconds, **_latencies(seen)}


def _topic(bench: Bench, _extent: Extent) -> str:
    return bench.new_topic()


def _large(bench: Bench, extent: Extent, work: str, topic: str, beside: str) -> Values:
    shape = {"size": MESSAGE_BYTES, "requests": extent.messages, "records": extent.messages, "every": "5ms"}
    seen, used = paced(bench.process, work, topic, beside=beside, **shape)
    megabytes = seen.bytes / 1e6
    return {"rate": megabytes / seen.seconds, "cpu": used / megabytes * 1e3, **_latencies(seen)}


def _large_produce(bench: Bench, extent: Extent, beside: str) -> Values:
    topic = bench.new_topic(partitions=1, configs=LARGE_TOPIC)
    values = _large(bench, extent, "large-produce", topic, beside)
    bench.drop_topic(topic)
    return values


def _large_topic(bench: Bench, extent: Extent) -> str:
    """A topic with messages, and one for small records; both names in one."""
    topic, beside = bench.new_topic(partitions=1, configs=LARGE_TOPIC), bench.new_topic()
    _large(bench, extent, "large-produce", topic, beside)
    return f"{topic},{beside}"


def _large_fetch(bench: Bench, extent: Extent, prepared: str) -> Values:
    topic, beside = prepared.split(",")
    return _large(bench, extent, "large-fetch", topic, beside)


def _cold_log(bench: Bench, extent: Extent) -> str:
    topic, beside = bench.new_topic(partitions=1), bench.new_topic()
    records = extent.cold_bytes // COLD_RECORD_BYTES
    load(bench.process.bootstrap, "fill", topic, size=COLD_RECORD_BYTES, records=records)
    return f"{topic},{beside}"


def _cold(bench: Bench, extent: Extent, prepared: str) -> Values:
    """The producers alone, then beside a reader of a log of which nothing is in memory."""
    topic, beside = prepared.split(",")
    shape = {"connections": 8, "every": "10ms"}
    alone, _ = paced(bench.process, "steady", beside, **shape, requests=100 * extent.producer_seconds // 2)
    cold_reads.drop_page_cache(bench.process.data_directory / f"{topic}-0")
    before = cold_reads.disk_bytes()
    records = extent.cold_bytes // COLD_RECORD_BYTES
    seen, _ = paced(bench.process, "cold", topic, beside=beside, records=records, **shape)
    return {
        "alone": alone.p99_us,
        "beside": seen.p99_us,
        "growth": seen.p99_us / alone.p99_us,
        "rate": seen.bytes / seen.seconds / 1e6,
        "cold": 100 * (cold_reads.disk_bytes() - before) / seen.bytes,
    }


def _partitions(bench: Bench, extent: Extent) -> str:
    each = min(extent.partitions, PARTITIONS_PER_TOPIC)
    load(bench.process.bootstrap, "spread", "idle", topics=extent.partitions // each, partitions=each)
    return ""


def _idle(bench: Bench, extent: Extent, _prepared: str) -> Values:
    time.sleep(extent.idle_seconds / 2)  # What creating them left to do, and the other broker's end, is not counted.
    before, began = cpu_seconds(bench.process.pid), time.monotonic()
    time.sleep(extent.idle_seconds)
    return {"cpu": 100 * (cpu_seconds(bench.process.pid) - before) / (time.monotonic() - began)}


def _latencies(seen: Load) -> dict[str, float]:
    return {"p50": seen.p50_us, "p99": seen.p99_us}


_P50, _P99 = Figure("p50", "p50, µs"), Figure("p99", "p99, µs")
_CPU_SHARE = Figure("cpu", "broker CPU, %", 1)
_LARGE = (Figure("rate", "MB/s"), Figure("cpu", "broker CPU, ms/MB", 3), Figure("p99", "p99 of small requests, µs"))

ROWS = (
    Row(
        "{consumers} tailing consumers, one record at a time",
        (Figure("cpu", "broker CPU, µs/answer", 1, ours_at_most(0.4 * TAILING_US_BEFORE, "µs")), _P50, _P99),
        _tailing,
        _nothing,
    ),
    Row("{producers} producers at 2 records/s each", (_CPU_SHARE, _P50, _P99), _steady, _topic),
    Row(
        "{connections:,} connections opened one after another",
        (Figure("seconds", "s", 2), Figure("cpu", "broker CPU, s", 2), _P99),
        _opened,
        _nothing,
    ),
    Row("{groups:,} groups of one member, a Heartbeat each second", (_CPU_SHARE, _P50, _P99), _heartbeats, _nothing),
    Row("messages of 10 MB: produce", _LARGE, _large_produce, _topic),
    Row("messages of 10 MB: fetch", _LARGE, _large_fetch, _large_topic),
    Row(
        "cold reads beside 8 producers at 100 records/s each",
        (
            Figure("alone", "p99 of the producers alone, µs"),
            Figure("beside", "p99 beside the reader, µs"),
            Figure("growth", "growth of p99", 2, ours_at_most(2.0, "")),
            Figure("rate", "read, MB/s"),
            Figure("cold", "of it from the disk, %"),
        ),
        _cold,
        _cold_log,
    ),
    Row(
        "{partitions:,} partitions, idle",
        (_CPU_SHARE._replace(digits=2, goal=ours_at_most(1.0, "%")),),
        _idle,
        _partitions,
    ),
)
"""The last one leaves many partitions behind: it stays the last."""
