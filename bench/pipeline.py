"""The pipeline: a topic read by Spark through our source and through Spark's own, from both brokers.

Each source has a Spark session of its own for each kind of work, so that neither profits from what the other has
compiled. The first run in it is the cold one. After one more that does not count, the brokers take turns, and the
medians are what is warm. Only the broker that is read has work; all of it shares the machine's cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import starting
from bench.client import ROOT, load
from bench.pipeline_job import SUM, WORKS, Task
from bench.sides import Say, Sides
from bench.works import PARTITIONS
from tests.outside.needs import need_connector
from tests.outside.processes import BrokerProcess

PART = "pipeline"
RECORDS, QUICK = 5_000_000, 20_000
RECORD_BYTES = 100
ROUNDS_MAX = 5
SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "bench",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Source(NamedTuple):
    """label: in the tables; format and options: as Spark takes them."""

    label: str
    format: str
    options: dict[str, str]


DEFAULT = Source("Spark's own source", "kafka", {})
TUNED = Source(
    "the same, tuned",
    "kafka",
    {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(8 << 20)},
)
OURS = Source("our source", "sordini", {})
SOURCES = (DEFAULT, TUNED, OURS)


class Measured(NamedTuple):
    """Seconds of one kind of work through one source: cold from our broker, then in turns from theirs and ours."""

    cold: float
    theirs: list[float]
    ours: list[float]


class Filled(NamedTuple):
    """A broker with the topic that is read."""

    broker: BrokerProcess
    topic: str

    def task(self, work: str, source: Source) -> Task:
        place = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": self.topic}
        return Task(work, source.format, {**place, **source.options})


class Session:
    """A Spark session in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def expect(self) -> object:
        """What it says next. Raises SystemExit when it has ended instead; why, it has said on standard error."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the Spark session ended with status {self._process.wait()}")
        return json.loads(line)

    def seconds(self, task: Task, records: int) -> float:
        """How long a task took. Raises SystemExit when it has not seen every record."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task._asdict()) + "\n")
        self._process.stdin.flush()
        seconds, seen = self.expect()
        expected = records * RECORD_BYTES if task.work == SUM else records
        if seen != expected:
            raise SystemExit(f"{task.work} by the source {task.format} saw {seen:,}, not {expected:,}")
        return float(seconds)


def tables(directory: Path, sides: Sides, rounds: int, say: Say, *, quick: bool) -> list[str]:
    """Both tables: the sources beside each other, then the brokers for each source."""
    records, rounds = (QUICK, 1) if quick else (RECORDS, min(rounds, ROUNDS_MAX))
    measured: dict[tuple[str, str], Measured] = {}
    with _filled(directory, sides, records) as (theirs, ours):
        for work in WORKS:
            for source in SOURCES:
                with session_in(directory / "spark") as session:
                    seen = _measure(session, (theirs, ours), work, source, records, rounds)
                measured[work, source.label] = seen
                pairs = f"theirs {_said(seen.theirs)}, ours {_said(seen.ours)}"
                say(f"{work}, {source.label}: cold {seen.cold:.2f} s, {pairs}")
    return [*source_rows(measured), "", *broker_rows(measured, sides)]


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    shape = f"{RECORDS:,} records of {RECORD_BYTES} bytes in {PARTITIONS} partitions, local[2]"
    return f"{shape}; medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


def _measure(
    session: Session, filled: tuple[Filled, Filled], work: str, source: Source, records: int, rounds: int
) -> Measured:
    theirs, ours = (side.task(work, source) for side in filled)
    cold = session.seconds(ours, records)
    session.seconds(theirs, records)  # Connects to the other broker, and lets the JVM compile what the first run began.
    seen: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, task in zip(seen, (theirs, ours), strict=True):
            side.append(session.seconds(task, records))
    return Measured(cold, *seen)


def source_rows(measured: dict[tuple[str, str], Measured]) -> Iterator[str]:
    labels = [source.label for source in SOURCES]
    heads = " | ".join(f"{label}, s" for label in labels)
    yield f"| work, read from our broker | | {heads} | gain | gain on the tuned |"
    yield "| --- | --- |" + " --: |" * (len(labels) + 2)
    for work in WORKS:
        of = [measured[work, label] for label in labels]
        for first, second, seconds in (
            (work, "cold", [one.cold for one in of]),
            ("", "warm", [median(one.ours) for one in of]),
        ):
            default, tuned, ours = seconds
            figures = " | ".join(f"{one:.2f}" for one in seconds)
            yield f"| {first} | {second} | {figures} | {default / ours:.2f} | {tuned / ours:.2f} |"


def broker_rows(measured: dict[tuple[str, str], Measured], sides: Sides) -> Iterator[str]:
    """The ratio is the median of each pair's: theirs by ours, so that more is better for us."""
    yield f"| work, warm | through | {sides.theirs.label}, s | {sides.ours.label}, s | speed |"
    yield "| --- | --- | --: | --: | --: |"
    for work in WORKS:
        for source in SOURCES:
            seen = measured[work, source.label]
            ratio = median(theirs / ours for theirs, ours in zip(seen.theirs, seen.ours, strict=True))
            yield f"| {work} | {source.label} | {median(seen.theirs):.2f} | {median(seen.ours):.2f} | {ratio:.2f} |"


def _said(seconds: list[float]) -> str:
    return " ".join(f"{one:.2f}" for one in seconds)


@contextmanager
def _filled(directory: Path, sides: Sides, records: int) -> Iterator[tuple[Filled, Filled]]:
    """Both brokers with the same records; they stay in the page cache."""
    made: list[Filled] = []
    try:
        for number, side in enumerate(sides):
            broker = side.start(directory / f"pipeline-{number}", dict(starting.SETTINGS)).start()
            made.append(Filled(broker, "rows"))
            load(broker.bootstrap, "create", "rows", partitions=PARTITIONS)
            load(broker.bootstrap, "produce", "rows", records=records, size=RECORD_BYTES, partitions=PARTITIONS)
        yield made[0], made[1]
    finally:
        for one in made:
            one.broker.stop()


@contextmanager
def session_in(home: Path) -> Iterator[Session]:
    home.mkdir(exist_ok=True)
    places = {"spark.local.dir": str(home), "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={home}"}
    settings = {**SETTINGS, **places, "spark.jars": ",".join(map(str, need_connector()))}
    command = [sys.executable, "-m", "bench.pipeline_job", json.dumps(settings), str(home)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment) as process:
        try:
            session = Session(process)
            session.expect()
            yield session
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
