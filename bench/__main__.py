"""`make bench`: Sordini beside Apache Kafka 3.9.1, the same client, the same settings, in turns.

Each kind of work is first repeated on both brokers until the CPU per record of three runs in a row agrees
within 5 % (the JVM needs it; at most ten runs), then measured in turns. The table shows medians.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench import (
    consumer_protocol,
    controller,
    failover,
    groups,
    interpreter,
    kit,
    log,
    mirror,
    outage,
    partitions,
    pipeline,
    quotas,
    replication,
    security,
    share_groups,
    sides,
    small_requests,
    starting,
    table,
    topic_sinks,
    transactions,
    upserts_by_spark,
    wide_topic,
)
from bench.client import ROOT, build
from bench.clusters import Labels
from bench.procfs import resident_bytes
from bench.works import WORKS, Bench, Figures, Work, settle
from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import BrokerProcess

STARTS = 3
THEIRS = "Apache Kafka 3.9.1"
GROUPS = "consumer groups"  # What `--only` calls them.
COMPARED = (replication, transactions, failover, outage, partitions, security, quotas, consumer_protocol, share_groups)
"""Parts that start brokers of their own on each side."""
NO_GO = (
    outage.PART,
    kit.PART,
    quotas.PART,
    consumer_protocol.PART,
    share_groups.PART,
    upserts_by_spark.PART,
)
"""Parts whose clients are not the one in Go."""
OTHERS = (
    "log",
    small_requests.PART,
    controller.PART,
    kit.PART,
    pipeline.PART,
    wide_topic.PART,
    upserts_by_spark.PART,
    topic_sinks.PART,
    mirror.PART,
    *(part.PART for part in COMPARED),
)
"""What the names of parts begin with that have tables of their own."""


def main() -> None:
    arguments = _arguments()
    _say(interpreter.line())
    if arguments.write and not interpreter.is_optimised():
        raise SystemExit("published figures are of an optimised Python: remove .venv and run `make bench PYTHON=...`")
    arguments.ours = "Second Apache Kafka" if arguments.apache_only else "Sordini"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # So that the brokers are stopped too.
    if arguments.only not in NO_GO:
        build()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.directory) as directory:
        try:
            for name, lines in _tables(Path(directory), arguments):
                _publish(name, lines, arguments)
        except pytest.skip.Exception as missing:
            raise SystemExit(str(missing)) from None


def _tables(directory: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    if not arguments.only.startswith(OTHERS):
        yield table.MAIN, [table.head(THEIRS, arguments.ours), *_compare(directory, arguments)]
    if small_requests.is_chosen(arguments.only):
        yield small_requests.PART, _small_requests(directory / "small-requests", arguments)
    if any(arguments.only in part for part in log.PARTS):
        yield from log.tables(directory, arguments, THEIRS, _say)
    for part in COMPARED:
        if arguments.only in part.PART:
            home = directory / part.PART
            home.mkdir()
            ways = {"apache_only": arguments.apache_only, "quick": arguments.quick}
            yield part.PART, part.rows(home, Labels(THEIRS, arguments.ours), arguments.rounds, _say, **ways)
    if arguments.only in pipeline.PART:
        yield pipeline.PART, _pipeline(directory / pipeline.PART, arguments)
    if arguments.only in wide_topic.PART:
        home = directory / "wide-topic"
        home.mkdir()
        yield wide_topic.PART, wide_topic.rows(home, arguments.rounds, _say, quick=arguments.quick)
    if arguments.only in upserts_by_spark.PART:
        yield upserts_by_spark.PART, upserts_by_spark.tables(arguments.rounds, _say, quick=arguments.quick)
    if arguments.only in topic_sinks.PART:
        yield topic_sinks.PART, _topic_sinks(directory / "topic-sinks", arguments)
    if arguments.only in mirror.PART:
        yield mirror.PART, mirror.rows(directory / mirror.PART, arguments.rounds, _say, quick=arguments.quick)
    if arguments.only in controller.PART:
        yield controller.PART, controller.rows(_size(arguments), _say)
    if arguments.only in kit.PART:
        yield kit.PART, kit.rows(_say, quick=arguments.quick)


def _small_requests(home: Path, arguments: argparse.Namespace) -> list[str]:
    with ZooKeeperProcess(home / "zookeeper") as zookeeper:
        pair = sides.both(THEIRS, arguments.ours, zookeeper.connect, apache_only=arguments.apache_only)
        return small_requests.lines(home, pair, arguments.rounds, arguments.only, _say, quick=arguments.quick)


def _pipeline(home: Path, arguments: argparse.Namespace) -> list[str]:
    with ZooKeeperProcess(home / "zookeeper") as zookeeper:
        pair = sides.both(THEIRS, arguments.ours, zookeeper.connect, apache_only=arguments.apache_only)
        return pipeline.tables(home, pair, arguments.rounds, _say, quick=arguments.quick)


def _topic_sinks(home: Path, arguments: argparse.Namespace) -> list[str]:
    with ZooKeeperProcess(home / "zookeeper") as zookeeper:
        pair = sides.both(THEIRS, arguments.ours, zookeeper.connect, apache_only=arguments.apache_only)
        return topic_sinks.rows(home, pair, arguments.rounds, _say, quick=arguments.quick)


def _publish(name: str, lines: list[str], arguments: argparse.Namespace) -> None:
    """Each table as soon as it is known: the next one takes minutes."""
    note = _note(name, arguments)
    head = (
        f"{time.strftime('%Y-%m-%d')}, commit {starting.commit()}; {starting.machine()}; {interpreter.name()}; {note}"
    )
    text = "\n".join([head, "", *lines])
    print(f"\n{name}: {text}", flush=True)
    if arguments.write and not arguments.apache_only:
        table.write(ROOT / "docs", name, text)


def _note(name: str, arguments: argparse.Namespace) -> str:
    if name == table.MAIN:
        return f"medians of {arguments.rounds} rounds."
    if arguments.quick:
        return "tiny sizes: it works, and nothing was measured."
    if name == controller.PART:
        return controller.note(_size(arguments))
    if name == kit.PART:
        return kit.note()
    if name == upserts_by_spark.PART:
        return upserts_by_spark.note()
    for part in (*COMPARED, mirror, pipeline, topic_sinks, wide_topic, small_requests):
        if name == part.PART:
            return part.note(arguments.rounds)
    return log.note(name, log.extent(arguments))


def _size(arguments: argparse.Namespace) -> controller.Size:
    return controller.QUICK if arguments.quick else controller.PAPER


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each work on each broker")
    parser.add_argument("--only", default="", help="only work whose name holds this text")
    parser.add_argument("--apache-only", action="store_true", help="Apache Kafka on both sides: proves the harness")
    parser.add_argument("--write", action="store_true", help="put the tables into their pages of docs")
    parser.add_argument("--directory", help="where the brokers keep their data (default: the system's)")
    log.add_arguments(parser)
    arguments = parser.parse_args()
    _refuse(parser, arguments)
    return arguments


def _refuse(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with a sentence where arguments request nothing, or what must not be written."""
    only = arguments.only
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if arguments.write and (arguments.quick or only.startswith(f"{small_requests.PART}:")):
        parser.error("--write puts whole tables of measurements on the page: neither --quick nor some of the rows")
    if only.startswith(f"{small_requests.PART}:"):
        small_requests.narrowed(only)
        return
    names = [*(work.name for work in WORKS), GROUPS, *log.PARTS, *(name for name in OTHERS if name != "log")]
    if not any(only in name for name in names):
        parser.error(f"nothing is called {only!r}: there are\n  " + "\n  ".join(names))


def _compare(directory: Path, arguments: argparse.Namespace) -> list[str]:
    """The table's rows. Both brokers run side by side; only one of them has work at a time."""
    works = [work for work in WORKS if arguments.only in work.name]
    with ZooKeeperProcess(directory / "zookeeper") as zookeeper:
        benches: list[Bench] = []
        starts: list[list[starting.Start]] = []
        try:
            for label, is_java in ((THEIRS, True), (arguments.ours, arguments.apache_only)):
                bench, seen = _start(label, is_java=is_java, directory=directory, zookeeper=zookeeper.connect)
                benches.append(bench)
                starts.append(seen)
            theirs, ours = benches
            rows = [line for work in works for line in _work(work, theirs, ours, arguments.rounds)]
            rows += table.start_rows(*starts)
            after = [resident_bytes(bench.process.pid) / 2**20 for bench in benches]
            rows.append(table.row("memory, after all of it", "MiB", *after))
        finally:
            for bench in benches:
                bench.process.stop()
        if arguments.only in GROUPS:
            rows += _groups(directory, zookeeper.connect, arguments)
    return rows


def _groups(directory: Path, zookeeper: str, arguments: argparse.Namespace) -> list[str]:
    """The rows of consumer groups, from brokers of their own."""
    theirs = partial(starting.apache_kafka, zookeeper=zookeeper)
    ours = theirs if arguments.apache_only else starting.sordini
    pair = tuple(lambda home, settings, start=start: start(home, overrides=settings) for start in (theirs, ours))
    return groups.rows(directory, pair, arguments.rounds, _say)


def _start(label: str, *, is_java: bool, directory: Path, zookeeper: str) -> tuple[Bench, list[starting.Start]]:
    name = label.partition(" ")[0].lower()

    def make(number: int) -> BrokerProcess:
        home = directory / f"{name}-{number}"
        return starting.apache_kafka(home, zookeeper) if is_java else starting.sordini(home)

    process, seen = starting.timed_starts(make, STARTS)
    _say(f"{label}: first answer after {min(one.seconds for one in seen):.2f} s")
    return Bench(label, process), seen


def _work(work: Work, theirs: Bench, ours: Bench, rounds: int) -> list[str]:
    """Settle both brokers on one kind of work, then let them take turns."""
    is_reading = work.kind == "consume"
    turns: list[Callable[[], Figures]] = []
    topics = []
    for bench in (theirs, ours):
        if is_reading:
            topics.append((bench, bench.filled_topic(work.records)))
            turns.append(partial(bench.measure, work, topics[-1][1]))
        else:
            turns.append(partial(bench.measure_afresh, work))
        runs = settle(turns[-1])
        _say(f"{work.name}, {bench.label}: {'not settled' if runs is None else f'settled after {runs} runs'}")
    seen: tuple[list[Figures], list[Figures]] = ([], [])
    for _ in range(rounds):
        for side, turn in zip(seen, turns, strict=True):
            side.append(turn())
    for bench, side in zip((theirs, ours), seen, strict=True):
        _say(f"  {bench.label}: " + ", ".join(f"{one.per_second:,.0f}/s {one.cpu_us:.2f} µs" for one in side))
    for bench, topic in topics:
        bench.drop_topic(topic)
    return table.work_rows(work, *seen)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


main()
