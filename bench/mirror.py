"""`sordini mirror` beside Apache Kafka's MirrorMaker 2: one topic from a broker into another, both brokers ours.

Each side has two brokers of its own. A mirror is stopped as by SIGSTOP while the source gets its records, and goes on
then: so the producer takes nothing of what is measured, and the JVM stays warm. A round ends when the target has all
records, committed where the mirror has transactions. MirrorMaker runs with its defaults, that is at least once, and as
many tasks as the topic has partitions.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench import starting, table
from bench.client import load
from bench.goals import Goal, at_least, at_most, summary
from bench.procfs import cpu_seconds, resident_bytes
from bench.sides import Say
from bench.works import PARTITIONS, Figures, settle
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.mirror.mirror_process import MirrorProcess, settings
from tests.outside.mirror_maker import MirrorMakerProcess
from tests.outside.processes import BrokerProcess, OutsideProcess
from tests.support.wire_client import Client

PART: Final = "mirror"
THEIRS, OURS = "MirrorMaker 3.9.1", "sordini mirror"
CODECS: Final = ("none", "lz4", "zstd")
RECORDS, QUICK = 1_000_000, 20_000
ROUNDS_MAX: Final = 5
RUNS_TO_SETTLE: Final = 8
ROUND_S_MAX: Final = 300.0
POLL_S: Final = 0.01
LATEST, READ_COMMITTED = -1, 1
GOALS: Final[dict[str, Goal]] = {"per_second": at_least(1.0), "cpu_us": at_most(0.5)}


class Site(NamedTuple):
    """One side: a mirror between two brokers."""

    label: str
    source: BrokerProcess
    target: BrokerProcess
    mirror: OutsideProcess


def rows(directory: Path, rounds: int, say: Say, *, quick: bool) -> list[str]:
    """The table's lines."""
    records, rounds, runs = (QUICK, 1, 1) if quick else (RECORDS, min(rounds, ROUNDS_MAX), RUNS_TO_SETTLE)
    found = [table.head(THEIRS, OURS, goals=True)]
    with _site(directory / "theirs", THEIRS) as theirs, _site(directory / "ours", OURS) as ours:
        for codec in CODECS:
            found += _codec((theirs, ours), codec, records, rounds, runs, say)
        memory = [resident_bytes(site.mirror.pid) / 2**20 for site in (theirs, ours)]
        found.append(table.judged_row("memory, after all of it", "MiB", *memory, None))
    say(summary(found))
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    shape = f"{RECORDS:,} records of 100 bytes in {PARTITIONS} partitions"
    return f"{shape}; medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


def _codec(pair: tuple[Site, Site], codec: str, records: int, rounds: int, runs: int, say: Say) -> list[str]:
    for site in pair:
        taken = settle(partial(_measure, site, codec, records), runs_max=runs)
        say(f"{codec}, {site.label}: {'not settled' if taken is None else f'settled after {taken} runs'}")
    seen: tuple[list[Figures], list[Figures]] = ([], [])
    for _ in range(rounds):
        for site, side in zip(pair, seen, strict=True):
            side.append(_measure(site, codec, records))
            say(f"{codec}, {site.label}: {side[-1].per_second:,.0f}/s {side[-1].cpu_us:.2f} µs")
    lines = []
    for name, label, digits in (("per_second", "records/s", 0), ("cpu_us", "the mirror's CPU, µs/record", 2)):
        values = [float(median(getattr(one, name) for one in side)) for side in seen]
        first = "" if lines else f"copy, {codec}"
        lines.append(table.judged_row(first, label, *values, GOALS[name], digits=digits))
    return lines


@contextmanager
def _site(home: Path, label: str) -> Iterator[Site]:
    """Two brokers and a mirror that copies."""
    home.mkdir(parents=True)
    with ExitStack() as running:
        brokers = []
        for name in ("east", "central"):
            broker = starting.sordini(home / name)
            starting.timed_start(broker, watch_idle=False)
            running.callback(broker.stop)
            brokers.append(broker)
        east, central = brokers
        for codec in CODECS:
            load(east.bootstrap, "create", f"bench-{codec}", partitions=PARTITIONS)
        mirror: OutsideProcess
        if label == THEIRS:
            mirror = MirrorMakerProcess(
                home / "mirror-maker", east.bootstrap, central.bootstrap, {"tasks.max": PARTITIONS}
            )
        else:
            file = settings(central.bootstrap, {"east": east.bootstrap}, commit_interval="500 milliseconds")
            mirror = MirrorProcess(home / "mirror", file)
        running.enter_context(mirror)
        yield Site(label, east, central, mirror)


def _measure(site: Site, codec: str, records: int) -> Figures:
    """One round: the source is filled, then the mirror runs. Raises SystemExit when it takes too long."""
    topic = f"bench-{codec}"
    os.kill(site.mirror.pid, signal.SIGSTOP)
    try:
        load(site.source.bootstrap, "produce", topic, records=records, codec=codec, partitions=PARTITIONS)
        before, used = _end(site.target, f"east.{topic}"), cpu_seconds(site.mirror.pid)
    finally:
        began = time.perf_counter()
        os.kill(site.mirror.pid, signal.SIGCONT)
    while _end(site.target, f"east.{topic}") - before < records:
        if time.perf_counter() - began > ROUND_S_MAX:
            raise SystemExit(f"{site.label} did not copy {records:,} records in {ROUND_S_MAX:g} s")
        time.sleep(POLL_S)
    seconds = time.perf_counter() - began
    return Figures(records / seconds, (cpu_seconds(site.mirror.pid) - used) / records * 1e6, 0.0, 0.0)


def _end(broker: BrokerProcess, topic: str) -> int:
    """The last stable offsets of all partitions, added up. Markers are in it: a few of a million."""
    wanted = [ListOffsetsPartition(partition_index=number, timestamp=LATEST) for number in range(PARTITIONS)]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=READ_COMMITTED, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
    )
    with Client("127.0.0.1", broker.port) as client:
        (found,) = client.ask(ApiKey.LIST_OFFSETS, 5, request).topics
    return sum(max(row.offset, 0) for row in found.partitions)
