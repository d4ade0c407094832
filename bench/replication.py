"""Replication: acks=all to a leader with two followers, three Apache Kafkas beside three of ours.

Each side is a cluster of its own on one ZooKeeper. Only one topic has work at a time, so the idle brokers cost both
sides the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import clusters, table
from bench.client import load
from bench.clusters import IDS, Labels, Three
from bench.goals import at_least, at_most
from bench.procfs import cpu_seconds
from bench.sides import Say
from bench.works import PARTITIONS, Figures, Work, settle

PART = "replication"
ROUNDS_MAX = 5
BATCHED = Work("RF 3, acks=all: produce, 64 KiB batches", "produce", 300_000)
ONE_AT_A_TIME = Work("RF 3, acks=all: one record per request, 1 in flight", "single", 4_000)
MANY_AT_ONCE = Work("RF 3, acks=all: one record per request, 16 connections", "single", 12_000, connections=16)
WORKS = {
    BATCHED: {"per_second": at_least(2.0)},
    ONE_AT_A_TIME: {"per_second": at_least(1.7), "p99_us": at_most(0.7)},
    MANY_AT_ONCE: {"per_second": at_least(1.5), "p99_us": at_most(0.7)},
}
"""Each kind of work with its goals."""
QUICK = 500  # Records in all, where only the way is tried.


class Measured(NamedTuple):
    """figures.cpu_us: the leader's; replicas_cpu_us: of the leader and its followers together, by record."""

    figures: Figures
    replicas_cpu_us: float


class Side:
    """One cluster; all its topics are led by the same broker."""

    def __init__(self, three: Three) -> None:
        self.label = three.label
        self._three = three
        self._topics = 0

    def measure(self, work: Work) -> Measured:
        """On a topic of its own, as elsewhere."""
        three, leader = self._three, self._three.brokers[IDS[0]]
        self._topics += 1
        prefix = f"rf3-{self._topics}"
        topic = f"{prefix}-0"  # As `settled` numbers them.
        load(leader.bootstrap, "create", topic, partitions=PARTITIONS, replicas=",".join(map(str, IDS)))
        three.settle(prefix, "preferred", partitions=PARTITIONS)
        before = [cpu_seconds(one.pid) for one in three.brokers.values()]
        shape = {"records": work.records, "connections": work.connections, "partitions": PARTITIONS}
        seen = load(leader.bootstrap, work.kind, topic, **shape, acks="all")
        used = [cpu_seconds(one.pid) - was for one, was in zip(three.brokers.values(), before, strict=True)]
        load(leader.bootstrap, "delete", topic)
        figures = Figures(seen.per_second, used[0] / seen.records * 1e6, seen.p50_us, seen.p99_us)
        return Measured(figures, sum(used) / seen.records * 1e6)


def rows(
    directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool, ours_only: bool = False
) -> list[str]:
    """The table's lines. With `apache_only` all six are Apache Kafkas, which proves the harness."""
    found = [table.head(*labels, goals=True)]
    with clusters.both(directory, labels, apache_only=apache_only, ours_only=ours_only) as threes:
        sides = [Side(three) for three in threes]
        for work, goals in WORKS.items():
            seen = _measured(work, sides[0], sides[-1], 1 if quick else min(rounds, ROUNDS_MAX), say, quick=quick)
            found += rows_of(work, goals, *seen)
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


def _measured(
    work: Work, theirs: Side, ours: Side, rounds: int, say: Say, *, quick: bool
) -> tuple[list[Measured], list[Measured]]:
    """Both clusters settled on one kind of work, then in turns."""
    work = work._replace(records=QUICK) if quick else work
    turns: list[Callable[[], Measured]] = [partial(side.measure, work) for side in (theirs, ours)]
    if not quick:
        for side, turn in zip((theirs, ours), turns, strict=True):
            runs = settle(lambda turn=turn: turn().figures)
            say(f"{work.name}, {side.label}: {'not settled' if runs is None else f'settled after {runs} runs'}")
    seen: tuple[list[Measured], list[Measured]] = ([], [])
    for _ in range(rounds):
        for measured, turn in zip(seen, turns, strict=True):
            measured.append(turn())
    return seen


def rows_of(work: Work, goals: table.Goals, theirs: list[Measured], ours: list[Measured]) -> list[str]:
    figures = ([one.figures for one in side] for side in (theirs, ours))
    lines = table.work_rows(work, *figures, goals=goals)
    lines[1] = lines[1].replace("broker CPU", "leader's CPU")
    unit = "request" if work.is_single else "record"
    their_cpu, our_cpu = (median(one.replicas_cpu_us for one in side) for side in (theirs, ours))
    label = f"CPU of all three replicas, µs/{unit}"
    lines.insert(2, table.judged_row("", label, their_cpu, our_cpu, None, digits=2))
    return lines
