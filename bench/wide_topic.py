"""A topic of many partitions, read by Spark through our source and through Spark's own, from our broker.

Spark has a task for each partition, and a task starts a fetch of its own: what a record costs in a topic of few
partitions is hardly seen here, what a partition costs is. Each source has a session of its own; its first run does not
count, as in `pipeline.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from bench import starting
from bench.client import load
from bench.pipeline import RECORD_BYTES, SOURCES, Filled, session_in
from bench.pipeline_job import COUNT, DELTA
from bench.sides import Say

PART = "wide topic"
RECORDS, QUICK = 2_000_000, 20_000
PARTITIONS, QUICK_PARTITIONS = 200, 20
ROUNDS_MAX = 3
WORKS = (COUNT, DELTA)


def rows(directory: Path, rounds: int, say: Say, *, quick: bool) -> list[str]:
    """The table, a row for each kind of work."""
    records, partitions, rounds = (
        (QUICK, QUICK_PARTITIONS, 1) if quick else (RECORDS, PARTITIONS, min(rounds, ROUNDS_MAX))
    )
    measured: dict[tuple[str, str], float] = {}
    with starting.sordini(directory / "broker") as broker:
        topic = Filled(broker, "wide")
        load(broker.bootstrap, "create", "wide", partitions=partitions)
        load(broker.bootstrap, "produce", "wide", records=records, size=RECORD_BYTES, partitions=partitions)
        for work in WORKS:
            for source in SOURCES:
                with session_in(directory / "spark") as session:
                    seconds = [session.seconds(topic.task(work, source), records) for _ in range(rounds + 1)]
                measured[work, source.label] = median(seconds[1:])
                say(f"{work}, {source.label}: {' '.join(f'{one:.2f}' for one in seconds)} s, the first does not count")
    return list(lines(measured))


def lines(measured: Mapping[tuple[str, str], float]) -> Iterator[str]:
    """Seconds by work and source as a table; the gain is Spark's own time by ours."""
    labels = [source.label for source in SOURCES]
    yield f"| work | {' | '.join(f'{label}, s' for label in labels)} | gain | gain on the tuned |"
    yield "| --- |" + " --: |" * (len(labels) + 2)
    for work in WORKS:
        default, tuned, ours = (measured[work, label] for label in labels)
        yield f"| {work} | {default:.2f} | {tuned:.2f} | {ours:.2f} | {default / ours:.2f} | {tuned / ours:.2f} |"


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only \"{PART}\" --write'`"
    shape = f"{RECORDS:,} records of {RECORD_BYTES} bytes in {PARTITIONS} partitions, local[2]"
    return f"{shape}; medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."
