"""Spark writing into a topic: our sink, the same in a transaction, and Spark's own, into both brokers.

Each sink has a Spark session of its own. Its first run is the cold one, the next one does not count, and then the
brokers take turns; the medians are what is warm. Every run writes into a topic of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple
from uuid import uuid4

from bench import starting
from bench.client import load
from bench.pipeline import Session, session_in
from bench.pipeline_job import WRITE, Task
from bench.sides import Say, Sides
from bench.works import PARTITIONS
from tests.outside.processes import BrokerProcess

PART = "topic sinks"
RECORDS, QUICK = 1_000_000, 10_000
VALUE_BYTES = 100
ROUNDS_MAX = 5


class Sink(NamedTuple):
    """label: in the table; format: as Spark takes it."""

    label: str
    format: str
    is_transactional: bool


SINKS = (
    Sink("Spark's own sink", "kafka", is_transactional=False),
    Sink("our sink", "sordini", is_transactional=False),
    Sink("our sink, a transaction", "sordini", is_transactional=True),
)


class Written(NamedTuple):
    """Seconds: cold into our broker, then in turns into theirs and ours."""

    cold: float
    theirs: list[float]
    ours: list[float]


def rows(directory: Path, sides: Sides, rounds: int, say: Say, *, quick: bool) -> list[str]:
    """The table."""
    records, rounds = (QUICK, 1) if quick else (RECORDS, min(rounds, ROUNDS_MAX))
    brokers = [
        side.start(directory / f"sinks-{number}", dict(starting.SETTINGS)).start() for number, side in enumerate(sides)
    ]
    measured: dict[str, Written] = {}
    try:
        for sink in SINKS:
            with session_in(directory / "spark") as session:
                measured[sink.label] = found = _measure(session, brokers, sink, records, rounds, directory)
            say(f"{sink.label}: cold {found.cold:.2f} s, theirs {found.theirs}, ours {found.ours}")
    finally:
        for broker in brokers:
            broker.stop()
    return list(table_rows(measured, sides, records))


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only \"{PART}\" --write'`"
    shape = f"{RECORDS:,} records with values of {VALUE_BYTES} bytes into {PARTITIONS} partitions, local[2], acks=all"
    return f"{shape}; medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


def _measure(
    session: Session, brokers: list[BrokerProcess], sink: Sink, records: int, rounds: int, directory: Path
) -> Written:
    theirs, ours = brokers

    def seconds(broker: BrokerProcess) -> float:
        topic = f"written-{uuid4().hex[:8]}"
        load(broker.bootstrap, "create", topic, partitions=PARTITIONS)
        options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
        if sink.is_transactional:
            options |= {"kafka.transactional.id": "bench", "stagingLocation": str(directory / "staging")}
        return session.seconds(Task(WRITE, sink.format, options, records), records)

    cold = seconds(ours)
    seconds(theirs)
    seen: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, broker in zip(seen, (theirs, ours), strict=True):
            side.append(seconds(broker))
    return Written(cold, *seen)


def table_rows(measured: dict[str, Written], sides: Sides, records: int) -> Iterator[str]:
    yield (
        f"| sink | cold, s | warm into {sides.theirs.label}, s | warm into {sides.ours.label}, s | records a second |"
        " against Spark's own |"
    )
    yield "| --- | --: | --: | --: | --: | --: |"
    base = median(measured[SINKS[0].label].ours)
    for sink in SINKS:
        found = measured[sink.label]
        warm = median(found.ours)
        rate = round(records / warm, -3)
        yield (
            f"| {sink.label} | {found.cold:.2f} | {median(found.theirs):.2f} | {warm:.2f} | {rate:,.0f} |"
            f" {base / warm:.2f} |"
        )
