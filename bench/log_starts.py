"""How long a broker with thousands of partitions takes to start, after an orderly stop and after kill -9.

A start counts from the creation of the process until a record of a partition in the middle has been fetched, and until
every partition has returned its log end offset (which must be the same as before).
"""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import table
from bench.client import conversation, load
from bench.procfs import cpu_seconds, resident_bytes
from bench.sides import Say, Side, Sides
from tests.outside.processes import BrokerProcess

PARTITIONS_PER_TOPIC = 100
RECORDS_PER_BATCH = 10
BATCHES = 3
REPEATED_BELOW = 5_000  # partitions: smaller starts are repeated
REPEATS = 3
SECONDS_MAX = 900
# An orderly stop is not cut short: the start after it is to be one after an orderly stop.
SETTINGS: dict[str, object] = {"sordini.shutdown.deadline.ms": SECONDS_MAX * 1_000}
ORDERLY = (0, 143)  # exit codes: ours, and a JVM's after SIGTERM
TOPIC = "start"
# What Apache Kafka takes for each partition: the log file, and its two indexes mapped into memory.
SPARE_DESCRIPTORS = 1_000
MAPS_EACH, SPARE_MAPS = 2, 5_000


class Restart(NamedTuple):
    """Seconds: the stop (until the process has gone), the first record, all partitions, the CPU used by then."""

    stop: float
    first: float
    complete: float
    cpu: float
    resident_mib: float


class Seen(NamedTuple):
    """What one broker took: seconds until all partitions had leaders, and its starts."""

    created: float
    clean: list[Restart]
    killed: list[Restart]


def rows(directory: Path, sides: Sides, counts: list[int], say: Say) -> list[str]:
    """The table's rows for each number of partitions."""
    found = []
    for count in counts:
        raise_limits(count, say)
        theirs, ours = (
            _measure(side, directory / f"starts-{name}-{count}", count, say) for name, side in sides._asdict().items()
        )
        found += rows_of(count, theirs, ours)
    return found


def raise_limits(partitions: int, say: Say) -> None:
    """Give the brokers all descriptors that there are. Raises SystemExit where they or the memory maps are too few."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    maps = int(Path("/proc/sys/vm/max_map_count").read_text())
    say(f"{partitions} partitions: {hard} descriptors (ulimit -n), {maps} memory maps (vm.max_map_count)")
    if hard != resource.RLIM_INFINITY and hard < partitions + SPARE_DESCRIPTORS:
        raise SystemExit(f"Apache Kafka needs ulimit -n {partitions + SPARE_DESCRIPTORS} for {partitions} partitions")
    if maps < partitions * MAPS_EACH + SPARE_MAPS:
        needed = partitions * MAPS_EACH + SPARE_MAPS
        raise SystemExit(f"Apache Kafka needs vm.max_map_count={needed} for {partitions} partitions (sysctl)")


def _measure(side: Side, home: Path, count: int, say: Say) -> Seen:
    broker = side.start(home, SETTINGS)
    broker.stop_seconds_max = SECONDS_MAX
    broker.start()
    try:
        created = load(broker.bootstrap, "spread", TOPIC, **_shape(count)).seconds
        say(f"{count} partitions, {side.label}: created in {created:.1f} s")
        for _ in range(BATCHES):
            touch(broker, count)
        records = BATCHES * RECORDS_PER_BATCH
        clean, killed = [], []
        for _ in range(REPEATS if count < REPEATED_BELOW else 1):
            clean.append(restart(broker, broker.stop, count, records))
            say(f"{count} partitions, {side.label}, stopped: {_line(clean[-1])}")
            touch(broker, count)  # So that there is something past every recovery point.
            records += RECORDS_PER_BATCH
            killed.append(restart(broker, broker.kill, count, records))
            say(f"{count} partitions, {side.label}, killed: {_line(killed[-1])}")
        return Seen(created, clean, killed)
    finally:
        broker.kill()
        shutil.rmtree(home)


def _shape(count: int) -> dict[str, object]:
    each = min(count, PARTITIONS_PER_TOPIC)
    return {"topics": count // each, "partitions": each}


def touch(broker: BrokerProcess, count: int) -> None:
    """Another batch for every partition."""
    shape = _shape(count)
    load(broker.bootstrap, "touch", TOPIC, **shape, each=RECORDS_PER_BATCH)


def restart(broker: BrokerProcess, end: Callable[[], object], count: int, records: int) -> Restart:
    """End a broker and start it again on what it has: `records` of them in every partition."""
    os.sync()  # Else an orderly stop is all about the disk: three files of each partition, one after the other.
    began = time.monotonic()
    status = end()
    if status is not None and status not in ORDERLY:
        raise SystemExit(f"{broker.name} stopped with status {status}\n{broker.tail()}")
    stopped = time.monotonic() - began
    broker.launch()  # Apache Kafka's waits for the end of the former session first.
    began = time.monotonic()
    shape = _shape(count)
    with conversation(broker.bootstrap, "serving", TOPIC, **shape, records=records) as watching:
        watching.expect("first")
        first = time.monotonic() - began
        watching.result()
        complete = time.monotonic() - began
    used = cpu_seconds(broker.pid)
    broker.wait_until(broker.is_ready, SECONDS_MAX, "be ready")
    return Restart(stopped, first, complete, used, resident_bytes(broker.pid) / 2**20)


def _line(restart: Restart) -> str:
    return (
        f"gone in {restart.stop:.2f} s, first record after {restart.first:.2f} s, all after {restart.complete:.2f} s, "
        f"{restart.cpu:.2f} s CPU, {restart.resident_mib:.0f} MiB"
    )


def rows_of(count: int, theirs: Seen, ours: Seen) -> list[str]:
    found = [table.row(f"{count:,} partitions: created, all with leaders", "s", theirs.created, ours.created, digits=2)]
    for label, kind in (("start after an orderly stop", "clean"), ("start after kill -9", "killed")):
        for number, (figure, field, digits) in enumerate(
            (
                ("first record fetched, s", "first", 2),
                ("every partition answers, s", "complete", 2),
                ("CPU until then, s", "cpu", 2),
                ("memory, MiB", "resident_mib", 0),
            )
        ):
            values = [median(getattr(one, field) for one in getattr(side, kind)) for side in (theirs, ours)]
            name = f"{count:,} partitions: {label}" if number == 0 else ""
            found.append(table.row(name, figure, *values, digits=digits))
    stops = [median(one.stop for one in side.clean) for side in (theirs, ours)]
    return [*found, table.row(f"{count:,} partitions: orderly stop, all being on the disk", "s", *stops, digits=2)]
