"""Thousands of partitions with three replicas each, over three brokers: how fast they come, fail over and come home.

Each time ends when the metadata of every live broker has it for all partitions and every partition has, after that,
acknowledged a record on all of its in-sync replicas.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import clusters, table
from bench.client import load
from bench.clusters import SESSION_MS, Labels, Three
from bench.procfs import cpu_seconds
from bench.sides import Say

PART = "partitions"
PARTITIONS_PER_TOPIC = 100
COUNT = 2_000
QUICK_COUNT = 40
ROUNDS_MAX = 3
TOPIC = "many"


class Seen(NamedTuple):
    """Seconds; `failed_over` and `cpu` (of the brokers that live) count from the kill on."""

    created: float
    failed_over: float
    in_sync: float
    rebalanced: float
    created_cpu: float
    failed_over_cpu: float


FIGURES = (
    ("created, in the metadata of all brokers, all acknowledge", "s", "created"),
    ("", "CPU of the three, s", "created_cpu"),
    (f"one broker killed (session of {SESSION_MS // 1_000} s): all led by others, all acknowledge", "s", "failed_over"),
    ("", "CPU of the two, s", "failed_over_cpu"),
    ("started again: all in sync, counted from its registration", "s", "in_sync"),
    ("preferred leaders elected: all led by them, all acknowledge", "s", "rebalanced"),
)


def rows(
    directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool, ours_only: bool = False
) -> list[str]:
    """The table's lines. With `apache_only` both sides are Apache Kafkas, which proves the harness."""
    count = QUICK_COUNT if quick else COUNT
    with clusters.both(directory, labels, apache_only=apache_only, ours_only=ours_only) as sides:
        seen: list[list[Seen]] = [[] for _ in sides]
        for number in range(1 if quick else min(rounds, ROUNDS_MAX)):
            for side, found in zip(sides, seen, strict=True):
                found.append(_measure(side, f"{TOPIC}-{number}", count))
                say(f"{count} partitions, {side.label}: {_line(found[-1])}")
    return [table.head(*labels), *rows_of(count, seen[0], seen[-1])]


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


def rows_of(count: int, theirs: list[Seen], ours: list[Seen]) -> list[str]:
    lines = []
    for name, figure, field in FIGURES:
        values = (median(getattr(one, field) for one in side) for side in (theirs, ours))
        lines.append(table.row(f"{count:,} partitions, RF 3: {name}" if name else "", figure, *values, digits=2))
    return lines


def _measure(side: Three, topic: str, count: int) -> Seen:
    each = min(count, PARTITIONS_PER_TOPIC)
    shape = {"topics": count // each, "partitions": each}
    used = _cpu(side)
    began = time.monotonic()
    load(side.brokers[1].bootstrap, "spread", topic, factor=3, **shape)
    side.settle(topic, "full", **shape)
    created, created_cpu = time.monotonic() - began, _cpu(side) - used

    victim = side.controller() % 3 + 1  # Not the controller: that is another matter.
    used = _cpu(side, without=victim)
    began = time.monotonic()
    side.brokers[victim].kill()
    side.settle(topic, "led", **shape)
    failed_over, failed_over_cpu = time.monotonic() - began, _cpu(side) - used

    side.back(victim)
    in_sync = side.settle(topic, "full", **shape)
    began = time.monotonic()
    load(side.bootstrap, "elect", topic, **shape)
    side.settle(topic, "preferred", **shape)
    rebalanced = time.monotonic() - began
    for number in range(count // each):
        load(side.brokers[1].bootstrap, "delete", f"{topic}-{number}")
    return Seen(created, failed_over, in_sync, rebalanced, created_cpu, failed_over_cpu)


def _cpu(side: Three, *, without: int = -1) -> float:
    return sum(
        cpu_seconds(process.pid) for number, process in side.brokers.items() if process.is_running and number != without
    )


def _line(seen: Seen) -> str:
    return (
        f"created in {seen.created:.2f} s ({seen.created_cpu:.2f} s CPU), failed over in {seen.failed_over:.2f} s "
        f"({seen.failed_over_cpu:.2f} s CPU), in sync after {seen.in_sync:.2f} s, rebalanced in {seen.rebalanced:.2f} s"
    )
