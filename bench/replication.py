"""Replication: acks=all to a leader with two followers, Apache Kafka's own and ours with followers of both kinds.

All brokers are one cluster: three Apache Kafkas, 1 to 3, hold the topic of one side; ours, 4 and 5, and the Apache
Kafka 1 hold that of the other. Only one topic has work at a time, so the idle brokers cost both sides the same.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import starting, table
from bench.client import load
from bench.procfs import cpu_seconds
from bench.sides import Say
from bench.works import PARTITIONS, Figures, Work, settle
from tests.outside.java import ApacheKafkaProcess, ZooKeeperProcess
from tests.outside.processes import BrokerProcess, SordiniProcess

PART = "replication"
ROUNDS_MAX = 5
THEIRS = (1, 2, 3)
OURS = (4, 5, 1)
WORKS = [
    Work("RF 3, acks=all: produce, 64 KiB batches", "produce", 300_000),
    Work("RF 3, acks=all: one record per request, 1 in flight", "single", 4_000),
]
QUICK = 500  # Records in all, where only the way is tried.
READY_SECONDS_MAX = 60
_SETTINGS: dict[str, object] = {
    **starting.SETTINGS,
    "zookeeper.session.timeout.ms": 18_000,
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
}


class Measured(NamedTuple):
    """figures.cpu_us: the leader's; replicas_cpu_us: of the leader and its followers together, by record."""

    figures: Figures
    replicas_cpu_us: float


class Side:
    """The brokers that hold one side's topics, the leader first."""

    def __init__(self, label: str, brokers: dict[int, BrokerProcess], replicas: tuple[int, ...]) -> None:
        self.label = label
        self._replicas = replicas
        self._processes = [brokers[one] for one in replicas]
        self._topics = 0

    def measure(self, work: Work) -> Measured:
        """On a topic of its own, as elsewhere."""
        leader, *_ = self._processes
        self._topics += 1
        topic = f"{'-'.join(map(str, self._replicas))}-{self._topics}"
        replicas = ",".join(map(str, self._replicas))
        load(leader.bootstrap, "create", topic, partitions=PARTITIONS, replicas=replicas)
        _until_served(
            lambda: load(leader.bootstrap, work.kind, topic, records=PARTITIONS, partitions=PARTITIONS, acks="all")
        )
        before = [cpu_seconds(one.pid) for one in self._processes]
        seen = load(leader.bootstrap, work.kind, topic, records=work.records, partitions=PARTITIONS, acks="all")
        used = [cpu_seconds(one.pid) - was for one, was in zip(self._processes, before, strict=True)]
        load(leader.bootstrap, "delete", topic)
        figures = Figures(seen.per_second, used[0] / seen.records * 1e6, seen.p50_us, seen.p99_us)
        return Measured(figures, sum(used) / seen.records * 1e6)


def rows(
    directory: Path, labels: tuple[str, str], rounds: int, say: Say, *, apache_only: bool, quick: bool
) -> list[str]:
    """The table's lines. With `apache_only` all five are Apache Kafkas, which proves the harness."""
    works = [work._replace(records=QUICK) if quick else work for work in WORKS]
    found = [table.head(*labels)]
    with _brokers(directory, apache_only=apache_only) as brokers:
        theirs, ours = (Side(label, brokers, ids) for label, ids in zip(labels, (THEIRS, OURS), strict=True))
        for work in works:
            found += _rows(work, theirs, ours, 1 if quick else min(rounds, ROUNDS_MAX), say, quick=quick)
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


@contextmanager
def _brokers(directory: Path, *, apache_only: bool) -> Iterator[dict[int, BrokerProcess]]:
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeperProcess(directory / "replication-zookeeper"))
        brokers: dict[int, BrokerProcess] = {}
        for broker_id in sorted({*THEIRS, *OURS}):
            home = directory / f"replica-{broker_id}"
            settings = {**_SETTINGS, "broker.id": broker_id}
            connect = f"{zookeeper.connect}/replication"
            if broker_id in THEIRS or apache_only:
                brokers[broker_id] = ApacheKafkaProcess(home, connect, settings, flags=starting.HEAP)
            else:
                brokers[broker_id] = SordiniProcess(home, {**settings, "zookeeper.connect": connect})
            running.callback(brokers[broker_id].kill)
            brokers[broker_id].start()
        _wait_for_all(brokers)
        yield brokers


def _wait_for_all(brokers: dict[int, BrokerProcess]) -> None:
    """Until the controller can place partitions on every broker."""
    replicas = ",".join(map(str, brokers))
    names = (f"ready-{attempt}" for attempt in itertools.count())
    first = brokers[THEIRS[0]].bootstrap
    _until_served(lambda: load(first, "create", next(names), partitions=1, replicas=replicas))


def _until_served(attempt: Callable[[], object]) -> None:
    """Try until it works: brokers hear of topics, and the controller of brokers, one after the other."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            attempt()
        except SystemExit:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


def _rows(work: Work, theirs: Side, ours: Side, rounds: int, say: Say, *, quick: bool) -> list[str]:
    turns: list[Callable[[], Measured]] = [partial(side.measure, work) for side in (theirs, ours)]
    if not quick:
        for side, turn in zip((theirs, ours), turns, strict=True):
            runs = settle(lambda turn=turn: turn().figures)
            say(f"{work.name}, {side.label}: {'not settled' if runs is None else f'settled after {runs} runs'}")
    seen: tuple[list[Measured], list[Measured]] = ([], [])
    for _ in range(rounds):
        for side, turn in zip(seen, turns, strict=True):
            side.append(turn())
    lines = table.work_rows(work, *([one.figures for one in side] for side in seen))
    lines[1] = lines[1].replace("broker CPU", "leader's CPU")
    unit = "request" if work.is_single else "record"
    all_three = (median(one.replicas_cpu_us for one in side) for side in seen)
    lines.insert(2, table.row("", f"CPU of all three replicas, µs/{unit}", *all_three, digits=2))
    return lines
