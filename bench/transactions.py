"""Transactions: of one, ten and a hundred records, of one producer and of sixteen, in one broker and in three.

Producers are those of KIP-98: AddPartitionsToTxn, Produce, EndTxn, and again. What is answered CONCURRENT_TRANSACTIONS
(the markers of the transaction before are still being written) is sent again after a pause, as clients do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import clusters, sides, starting, table
from bench.client import Load, load, paced_together
from bench.clusters import Labels
from bench.goals import Goal, at_least, at_most, summary
from bench.sides import Say
from bench.works import Figures, settle
from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import BrokerProcess

PART = "transactions"
ROUNDS_MAX = 3
PARTITIONS = 3
"""With a leader on each of three brokers."""
PAUSE_MS = 20
"""Before a refused request is sent again: of the Java client, librdkafka and kafka-python."""
SHORT_PAUSE_MS = 1
ALONE: dict[str, object] = {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.replication.factor": 1,
}
GOAL = at_least(1.5)

Values = Mapping[str, float]


class Extent(NamedTuple):
    """How long everything takes; `QUICK` proves that the harness works and measures nothing."""

    seconds: float
    read_seconds: float
    runs_to_settle: int


FULL = Extent(2.0, 2.0, 8)
QUICK = Extent(0.3, 0.5, 1)


class Cluster(NamedTuple):
    """One side: the brokers of one kind, which are one or three."""

    label: str
    brokers: Sequence[BrokerProcess]
    new_topic: Callable[[str], str]
    """Makes a topic with PARTITIONS partitions, whose name begins so."""


class Row(NamedTuple):
    """name: as the table calls it; measure: one round of it, for a prepared topic."""

    name: str
    measure: Callable[[Cluster, Extent, str], Values]
    goals: Mapping[str, Goal]


def _write(
    producers: int, records: int, cluster: Cluster, extent: Extent, topic: str, *, pause_ms: int = PAUSE_MS
) -> Values:
    shape = {"connections": producers, "each": records, "partitions": PARTITIONS, "group": "producer"}
    timing = {"lasting": f"{extent.seconds}s", "pause": f"{pause_ms}ms"}
    seen, used = paced_together(cluster.brokers, "transactions", topic, **shape, **timing)
    return {"rate": seen.per_second, **_others(seen, used)}


def _read(producers: int, every_ms: int, cluster: Cluster, extent: Extent, _topic: str) -> Values:
    topic = cluster.new_topic("committed")
    requests = max(int(extent.read_seconds * 1_000 / every_ms), 1)
    shape = {"connections": producers, "partitions": PARTITIONS, "group": "read", "every": f"{every_ms}ms"}
    seen, used = paced_together(cluster.brokers, "committed", topic, **shape, requests=requests)
    load(cluster.brokers[0].bootstrap, "delete", topic)
    return _others(seen, used)


def _others(seen: Load, used: float) -> Values:
    return {
        "cpu": used / seen.records * 1e6,
        "p50": seen.p50_us,
        "p99": seen.p99_us,
        "refused": 100 * seen.refused / seen.records,
    }


_RATE: Mapping[str, Goal] = {"rate": GOAL}
_NO_GOALS: Mapping[str, Goal] = {}

ROWS = (
    *(
        Row(f"{many}, {size} each", partial(_write, producers, records), _RATE)
        for producers, many in ((1, "1 producer"), (16, "16 producers"))
        for records, size in ((1, "1 record"), (10, "10 records"), (100, "100 records"))
    ),
    Row(
        f"16 producers, 1 record each, pauses of {SHORT_PAUSE_MS} ms",
        partial(_write, 16, 1, pause_ms=SHORT_PAUSE_MS),
        _NO_GOALS,
    ),
    Row("read_committed, 1 producer, 25 transactions/s", partial(_read, 1, 40), {"p99": at_most(1.0)}),
    Row("read_committed, 16 producers, 160 transactions/s", partial(_read, 16, 100), {"p99": at_most(1.0)}),
)
FIGURES = {
    "rate": "transactions/s",
    "cpu": "broker CPU, µs/transaction",
    "p50": "p50, µs",
    "p99": "p99, µs",
    "refused": "refusals per 100 transactions",
}
"""Each figure of a row that has it, with its name in the table."""


def rows(directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool) -> list[str]:
    """The table's lines. With `apache_only` all brokers are Apache Kafka's, which proves the harness."""
    extent, rounds = (QUICK, 1) if quick else (FULL, min(rounds, ROUNDS_MAX))
    found = [table.head(*labels, goals=True)]
    with _alone(directory / "alone", labels, apache_only=apache_only) as pair:
        found += _measured("RF 1", pair, extent, rounds, say)
    with _three(directory / "three", labels, apache_only=apache_only) as pair:
        found += _measured("RF 3", pair, extent, rounds, say)
    say(summary(found))
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


@contextmanager
def _alone(home: Path, labels: Labels, *, apache_only: bool) -> Iterator[list[Cluster]]:
    """One broker of each kind."""
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeperProcess(home / "zookeeper"))
        found = []
        pair = sides.both(*labels, zookeeper.connect, apache_only=apache_only)
        for name, side in pair._asdict().items():
            process = side.start(home / name, ALONE)
            starting.timed_start(process, watch_idle=False)
            running.callback(process.stop)
            found.append(Cluster(side.label, [process], partial(_new_topic, process.bootstrap, _names(), 1)))
        yield found


@contextmanager
def _three(home: Path, labels: Labels, *, apache_only: bool) -> Iterator[list[Cluster]]:
    """Three brokers of each kind."""
    home.mkdir()
    with clusters.both(home, labels, apache_only=apache_only) as threes:
        found = []
        for three in threes:
            brokers = list(three.brokers.values())
            found.append(Cluster(three.label, brokers, partial(_new_topic, three.bootstrap, _names(), 3)))
        yield found


def _names() -> Iterator[int]:
    return iter(range(1, 1_000_000))


def _new_topic(bootstrap: str, numbers: Iterator[int], factor: int, prefix: str) -> str:
    name = f"{prefix}-{next(numbers)}"
    topic = f"{name}-0"  # As `settled` numbers them.
    load(bootstrap.partition(",")[0], "create", topic, partitions=PARTITIONS, factor=factor)
    load(bootstrap, "settled", name, want="preferred", partitions=PARTITIONS)
    return topic


def _measured(name: str, pair: Sequence[Cluster], extent: Extent, rounds: int, say: Say) -> list[str]:
    """The rows of both sides: warmed up, then in turns."""
    topics = [cluster.new_topic("transactions") for cluster in pair]
    for cluster, topic in zip(pair, topics, strict=True):
        runs = settle(partial(_warm, cluster, extent, topic), runs_max=extent.runs_to_settle)
        say(f"{name}, {cluster.label}: {'not settled' if runs is None else f'settled after {runs} runs'}")
    found = []
    for row in ROWS:
        seen: tuple[list[Values], list[Values]] = ([], [])
        for number in range(rounds + 1):
            for cluster, topic, side in zip(pair, topics, seen, strict=True):
                values = row.measure(cluster, extent, topic)
                shown = ", ".join(f"{key} {value:,.0f}" for key, value in values.items())
                say(f"{name}, {row.name}, {cluster.label}{', warming up' if number == 0 else ''}: {shown}")
                if number > 0:
                    side.append(values)
        found += row_lines(name, row, *seen)
    return found


def _warm(cluster: Cluster, extent: Extent, topic: str) -> Figures:
    values = _write(16, 1, cluster, extent, topic, pause_ms=SHORT_PAUSE_MS)
    return Figures(values["rate"], values["cpu"], values["p50"], values["p99"])


def row_lines(name: str, row: Row, theirs: list[Values], ours: list[Values]) -> list[str]:
    """A row's lines: the median of all rounds of each figure."""
    found = []
    for key in theirs[0]:
        values = [median(one[key] for one in side) for side in (theirs, ours)]
        first = "" if found else f"{name}: {row.name}"
        found.append(table.judged_row(first, FIGURES[key], *values, row.goals.get(key)))
    return found
