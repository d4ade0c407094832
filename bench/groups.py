"""Consumer groups: from joining to the first record, and what a thousand groups cost.

The brokers are others than those of the remaining table: how long an empty group waits for more members is set
at the start (`group.initial.rebalance.delay.ms`), so each delay has a pair of its own, without history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import starting, table
from bench.client import load
from bench.procfs import cpu_seconds, resident_bytes
from tests.outside.processes import BrokerProcess

MEMBERS = (1, 50)
DELAYS_MS = (0, 3_000)
FIRSTS = 3
GROUPS = 1_000
TOPICS = 200
REQUESTS = 20_000
DELAY = "group.initial.rebalance.delay.ms"

Say = Callable[[str], None]
Start = Callable[[Path, dict[str, object]], BrokerProcess]


def rows(directory: Path, starts: tuple[Start, Start], rounds: int, say: Say) -> list[str]:
    """The table's rows; `starts` make their broker and ours."""
    found = _first_group(directory, starts, say)
    for delay_ms in DELAYS_MS:
        with _pair(directory / f"delay-{delay_ms}", starts, delay_ms) as brokers:
            label = "no delay" if delay_ms == 0 else f"delay of {delay_ms / 1_000:g} s"
            for members in MEMBERS:
                found += _join_rows(brokers, members, label, rounds, say)
            if delay_ms == 0:
                found += _thousand(brokers, say)
    return found


@contextmanager
def _pair(directory: Path, starts: tuple[Start, Start], delay_ms: int) -> Iterator[list[BrokerProcess]]:
    brokers: list[BrokerProcess] = []
    try:
        for name, start in zip(("theirs", "ours"), starts, strict=True):
            brokers.append(start(directory / f"groups-{name}-{delay_ms}", {DELAY: delay_ms}))
            brokers[-1].start()
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()


def _first_group(directory: Path, starts: tuple[Start, Start], say: Say) -> list[str]:
    """The first group of a new broker, which creates __consumer_offsets."""
    seconds: list[list[float]] = [[], []]
    for number in range(FIRSTS):
        with _pair(directory / f"first-{number}", starts, 0) as brokers:
            for side, broker in enumerate(brokers):
                seconds[side].append(_join(broker, 1, "first")[0])
    name = "first group of a fresh broker, 1 member, no delay: joining to its first record"
    say(f"{name}: theirs {seconds[0]}, ours {seconds[1]}")
    return [table.row(name, "ms", *(median(side) * 1e3 for side in seconds))]


def _join_rows(brokers: list[BrokerProcess], members: int, label: str, rounds: int, say: Say) -> list[str]:
    """One join that does not count (the first makes __consumer_offsets), then the two take turns."""
    seconds: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    for number in range(rounds + 1):
        for side, broker in enumerate(brokers):
            took, used = _join(broker, members, f"join-{members}-{number}")
            if number > 0:
                seconds[side].append(took)
                cpu[side].append(used)
    name = f"group of {members}, {label}: joining to every member's first record"
    say(f"{name}: theirs {seconds[0]}, ours {seconds[1]}")
    head = table.row(name, "ms", *(median(side) * 1e3 for side in seconds))
    return [head, table.row("", "broker CPU, ms", *(median(side) * 1e3 for side in cpu), digits=1)]


def _join(broker: BrokerProcess, members: int, topic: str) -> tuple[float, float]:
    load(broker.bootstrap, "create", topic, partitions=members)
    before = cpu_seconds(broker.pid)
    measured = load(broker.bootstrap, "join", topic, members=members, group=topic)
    used = cpu_seconds(broker.pid) - before
    load(broker.bootstrap, "delete", topic)
    return measured.seconds, used


def _thousand(brokers: list[BrokerProcess], say: Say) -> list[str]:
    """A thousand groups with ten offsets each on two hundred topics: rates, memory, and a start with all of it."""
    shape = {"groups": GROUPS, "topics": TOPICS, "group": "thousand", "records": REQUESTS}
    figures: dict[str, list[float]] = {}
    for broker in brokers:
        load(broker.bootstrap, "topics", "many", topics=TOPICS)
        for work in ("commits", "offsets"):
            load(broker.bootstrap, work, "many", **shape)  # Once to warm up.
            before = cpu_seconds(broker.pid)
            seen = load(broker.bootstrap, work, "many", **shape)
            used = cpu_seconds(broker.pid) - before
            figures.setdefault(work, []).append(seen.per_second)
            figures.setdefault(f"{work} cpu", []).append(used / REQUESTS * 1e6)
            figures.setdefault(f"{work} p99", []).append(seen.p99_us)
        figures.setdefault("memory", []).append(resident_bytes(broker.pid) / 2**20)
        figures.setdefault("restart", []).append(_restart_seconds(broker, {**shape, "records": GROUPS}))
        say(f"{GROUPS} groups: " + ", ".join(f"{name} {values[-1]:.2f}" for name, values in figures.items()))
    name = f"{GROUPS:,} groups, {TOPICS} topics"
    return [
        table.row(f"{name}: OffsetCommit of 10 offsets, 16 at once", "requests/s", *figures["commits"]),
        table.row("", "broker CPU, µs/request", *figures["commits cpu"], digits=1),
        table.row("", "p99, µs", *figures["commits p99"]),
        table.row(f"{name}: OffsetFetch of all of a group", "requests/s", *figures["offsets"]),
        table.row("", "broker CPU, µs/request", *figures["offsets cpu"], digits=1),
        table.row("", "p99, µs", *figures["offsets p99"]),
        table.row(f"{name}: memory", "MiB", *figures["memory"]),
        table.row(f"{name}: start until every group's offsets are served", "s", *figures["restart"], digits=2),
    ]


def _restart_seconds(broker: BrokerProcess, shape: dict[str, object]) -> float:
    broker.stop()
    began = time.monotonic()
    starting.timed_start(broker, watch_idle=False)
    load(broker.bootstrap, "offsets", "many", **shape)
    return time.monotonic() - began
