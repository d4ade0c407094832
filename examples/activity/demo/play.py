"""The whole example in order: a broker, streams, visitors, then what one does with tables afterwards, then the report.

The streams run while the visitors come, as they would for years; when the last record is in the tables they are asked
to stop. Then windows are counted, the last ones closed by a backfill, the counts audited, small files put together.
Every step is a program that one could start by hand; the report names their commands.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from examples.activity.demo import tables
from examples.activity.demo.lag import LagWatch, Sample
from examples.activity.generator.producing import Progress, make_topics, produce
from examples.activity.generator.sending import TOPICS, records
from examples.activity.generator.tally import Tally
from examples.activity.generator.visits import Plan, events
from examples.activity.report.findings import Findings, findings
from examples.activity.report.page import Run, page
from examples.programs import Background, Broker, ExampleError, ExampleFolder, Step, run, sordini
from examples.progress_output import ProgressOutput

START_SECONDS_MAX = 240.0
CATCH_UP_SECONDS_MAX = 300.0
JOB_SECONDS_MAX = 300.0
RESTARTS_MAX = 2
JOBS = tuple(str(path) for path in tables.JOB_FILES.values())


class Demo(NamedTuple):
    """The settings of a run."""

    directory: Path
    """Empty, or not there yet."""
    plan: Plan
    seconds: float
    """The time of the plan is played in so many; 0 for as fast as it goes."""
    broken_share: float
    partitions: int = 4


class Outcome(NamedTuple):
    """The results of a run."""

    report: Path
    counts: dict[str, Any]
    found: Findings


def play(demo: Demo, tell: ProgressOutput) -> Outcome:
    """Run all steps. Raises ExampleError or SendingError when a step fails; started programs are stopped then."""
    steps: list[Step] = []
    place = ExampleFolder(demo.directory, {"ACTIVITY": str(demo.directory)})
    with _timed(steps, tell, "start a broker", Broker(place)) as broker:
        place = place._replace(environment={**place.environment, "SORDINI_BOOTSTRAP": broker.bootstrap})
        make_topics(broker.bootstrap, demo.partitions)
        tally, watched = _stream_while_they_come(demo, place, broker.bootstrap, steps, tell)
        for topic in TOPICS.values():
            lines = "".join(f"{line}\n" for line in tally.audit_lines(topic))
            (demo.directory / f"counts-{topic}.jsonl").write_text(lines, encoding="utf-8")
        streamed = _afterwards(demo, place, steps, tell)
    tell("drawing the report")
    run_summary = Run(
        title="What people did on the site",
        counts=tally.reported(),
        samples=watched.samples,
        produced_seconds=watched.produced_seconds,
        steps=steps,
        facts=_facts(demo, tally, watched),
    )
    found = findings(tables.read(demo.directory, streamed))
    report = demo.directory / "report.html"
    report.write_text(page(run_summary, found), encoding="utf-8")
    return Outcome(report, run_summary.counts, found)


class _Watched(NamedTuple):
    samples: list[Sample]
    produced_seconds: float


@contextmanager
def _timed(steps: list[Step], tell: ProgressOutput, name: str, broker: Broker) -> Iterator[Broker]:
    tell(name)
    began = time.monotonic()
    with broker:
        steps.append(Step(name, broker.reported, time.monotonic() - began))
        yield broker


def _stream_while_they_come(
    demo: Demo, place: ExampleFolder, bootstrap: str, steps: list[Step], tell: ProgressOutput
) -> tuple[Tally, _Watched]:
    """Streams first, visitors then, until the tables have every record."""
    directory = demo.directory

    def reported(progress: Progress) -> None:
        behind = watch.samples[-1] if watch.samples else Sample(0, 0, 0)
        tell.passing(
            f"visitors come: {progress.sent:,} records in {progress.seconds:.0f} s, "
            f"{behind.in_topics - behind.in_tables:,} not in the tables yet"
        )

    watch = LagWatch(bootstrap, tuple(TOPICS.values()), lambda: tables.offsets(directory))
    streams = Background(place, "stream", sordini("pipeline", "stream", *JOBS))
    with watch, streams:
        tell("starting Spark and the streams")
        streams.wait_until(lambda: _are_streaming(directory), START_SECONDS_MAX, "start its streams")
        watch.start()
        sent = records(events(demo.plan), seed=demo.plan.seed, broken_share=demo.broken_share)
        tally = produce(bootstrap, demo.plan, sent, seconds=demo.seconds, tell=reported)
        produced_seconds = watch.seconds
        tell("waiting for the streams to have everything in the tables")
        _catch_up(streams, watch, tally.sent.total(), tell)
        tell("asking the streams to stop")
        steps.append(streams.stop())
    return tally, _Watched(watch.samples, produced_seconds)


def _catch_up(streams: Background, watch: LagWatch, records: int, tell: ProgressOutput) -> None:
    """Wait until the tables have this many records; streams that ended are restarted, as a supervisor would."""
    for restarts_left in reversed(range(RESTARTS_MAX + 1)):
        try:
            streams.wait_until(lambda: watch.has_all(records), CATCH_UP_SECONDS_MAX, "catch up")
        except ExampleError as error:
            if not restarts_left:
                raise
            tell(f"starting the streams again, which go on where the tables end: {error}")
            streams.stop()
            streams.start()
        else:
            return


def _are_streaming(directory: Path) -> bool:
    """Whether every stream has a checkpoint, which Spark makes when it starts one."""
    states = [directory / "state" / job.stem for job in tables.JOB_FILES.values()]
    return all(any(state.glob("stream/*/metadata")) for state in states)


def _afterwards(demo: Demo, place: ExampleFolder, steps: list[Step], tell: ProgressOutput) -> pa.Table:
    """What follows the streams; returns the windows as they were before the backfill."""

    def step(name: str, *words: str) -> None:
        tell(name)
        steps.append(run(place, name, sordini("pipeline", *words), seconds_max=JOB_SECONDS_MAX))

    step("load visits", "load", str(tables.VISITS))
    step("aggregate", "aggregate", "--available-now", str(tables.AGGREGATES))
    streamed = tables.windows(demo.directory)
    names = (word for name in ("minutes", "pages") for word in ("--aggregate", name))
    step("backfill", "backfill", *names, str(tables.AGGREGATES))
    for command in ("audit", "compact", "status"):
        for topic, job in tables.JOB_FILES.items():
            step(f"{command} {topic}", command, str(job))
    return streamed


def _facts(demo: Demo, tally: Tally, watched: _Watched) -> dict[str, str]:
    seconds, start = watched.produced_seconds, time.gmtime(demo.plan.start_ms / 1000)
    names = sorted(path.name for path in (demo.directory / "tables").iterdir())
    return {
        "seed": str(demo.plan.seed),
        "time played": f"{demo.plan.minutes:,} minutes, from {time.strftime('%d %B %Y, %H:%M', start)} UTC on",
        "sending took": f"{seconds:.1f} s, {tally.sent.total() / seconds:,.0f} records a second",
        "topics": f"{', '.join(TOPICS.values())}, {demo.partitions} partitions each",
        "tables": ", ".join(names),
    }
