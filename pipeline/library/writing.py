"""`load`, `stream`, `aggregate`, `backfill` and `close_windows`: what writes rows, for programs.

Each checks the job, finds a Spark (see `sessions.py`), runs, and returns what it wrote. A request to stop is a
`threading.Event`; in the main thread SIGTERM and Ctrl-C are one, too. Raises PipelineError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.library.results import Result
from sordini.pipeline.library.sessions import ready

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.batch_writer import Batch
    from sordini.pipeline.jobs.graceful_stop import BatchGate
    from sordini.pipeline.jobs.job import Aggregate, Job
    from sordini.pipeline.jobs.load import Step
    from sordini.pipeline.source.positions import Offsets

OnStep = Callable[["Step"], object]
OnBatch = Callable[[str, "Batch"], object]
OnNotice = Callable[[str], object]
Edge = datetime | Mapping[str, Mapping[int, int]]
"""The edge of a range: a time (without a zone it is UTC), or offsets by topic and partition."""


def load(
    job: Job,
    *,
    spark: SparkSession | None = None,
    on_step: OnStep | None = None,
    on_notice: OnNotice | None = None,
    stop: Event | None = None,
) -> Result:
    """Write the records that are in the topics now, in pieces of `source.records_max`, and return.

    `on_step` is called after each piece; it has the records done and all there are. The next call continues where the
    table ends. A request to stop ends it after the current piece.
    """
    from sordini.pipeline.jobs.load import load as run

    return _stepwise(
        job, spark, stop, on_step, lambda session, stopping: run(job, session, stopping, _or_none(on_notice))
    )


def backfill(
    job: Job,
    *,
    start: Edge | None = None,
    end: Edge | None = None,
    into: str = "",
    spark: SparkSession | None = None,
    on_step: OnStep | None = None,
    stop: Event | None = None,
) -> Result:
    """Write what the table lacks of a range; None is from the first record, up to the table's own position.

    `into` is the location of another table of the same kind to fill instead, up to the log end.
    """
    from sordini.pipeline.jobs.backfill import Range
    from sordini.pipeline.jobs.backfill import backfill as run
    from sordini.pipeline.jobs.job_file_sinks import location_of

    wanted = Range(_edge(start), _edge(end))
    location = location_of(job.home, into) if into else ""
    return _stepwise(job, spark, stop, on_step, lambda session, stopping: run(job, session, wanted, stopping, location))


def stream(
    jobs: Job | Sequence[Job],
    *,
    available_now: bool = False,
    spark: SparkSession | None = None,
    on_batch: OnBatch | None = None,
    on_notice: OnNotice | None = None,
    stop: Event | None = None,
) -> list[Result]:
    """Write records as they arrive, until a request to stop; with `available_now` until all that exist are read.

    Several jobs share one Spark; there is a result for each. `on_batch` is called with the job's name after each batch,
    in that query's thread; an error that it raises stops the stream.
    """
    from sordini.pipeline.jobs.graceful_stop import BatchGate
    from sordini.pipeline.jobs.stream import stream as run

    wanted = [jobs] if not isinstance(jobs, Sequence) else list(jobs)
    check_names(wanted)
    results = {job.name: Result(job.name) for job in wanted}
    gate = BatchGate(stop)
    with ready(wanted, spark, query="stream") as session:
        run(
            wanted,
            session,
            available_now=available_now,
            on_batch=lambda job, batch: _add(results[job.name], batch, on_batch),
            notice=_or_none(on_notice),
            gate=gate,
        )
    return _ended(results, gate)


def aggregate(
    job: Job,
    *,
    only: Iterable[str] = (),
    available_now: bool = False,
    spark: SparkSession | None = None,
    on_batch: OnBatch | None = None,
    on_notice: OnNotice | None = None,
    stop: Event | None = None,
) -> list[Result]:
    """Write measures by windows, as `stream` writes rows; there is a result for each aggregate, `only` those named."""
    from sordini.pipeline.jobs.aggregate import aggregate as run
    from sordini.pipeline.jobs.graceful_stop import BatchGate

    wanted = aggregates_of(job, only)
    results = {one.name: Result(one.name) for one in wanted}
    gate = BatchGate(stop)
    with ready([job], spark, query="aggregate") as session:
        run(
            job,
            session,
            wanted,
            available_now=available_now,
            on_batch=lambda one, batch: _add(results[one.name], batch, on_batch),
            notice=_or_none(on_notice),
            gate=gate,
        )
    return _ended(results, gate)


def close_windows(
    job: Job,
    *,
    only: Iterable[str] = (),
    start: datetime | None = None,
    end: datetime | None = None,
    spark: SparkSession | None = None,
    on_batch: OnBatch | None = None,
) -> list[Result]:
    """Write the windows between two times, of the events' own, that aggregates lack: the last ones of a quiet topic.

    Without `end` those that are over by now.
    """
    from sordini.pipeline.jobs.backfill import close_windows as run

    wanted = aggregates_of(job, only)
    results = {one.name: Result(one.name) for one in wanted}
    to_ms = _milliseconds(end or datetime.now(UTC))
    with ready([job], spark) as session:
        for one in wanted:
            batch = run(job, session, one, None if start is None else _milliseconds(start), to_ms)
            _add(results[one.name], batch, on_batch)
    return list(results.values())


def aggregates_of(job: Job, only: Iterable[str]) -> list[Aggregate]:
    """The aggregates of these names, without names all. Raises PipelineError where there is none."""
    known = {one.name: one for one in job.aggregates}
    names = list(only)
    for name in names:
        if name not in known:
            raise PipelineError(f"job {job.name} has no aggregate {name}; it has {', '.join(known) or 'none'}")
    if not known:
        raise PipelineError(f"job {job.name} has no aggregates")
    return [known[name] for name in names] or list(known.values())


def check_names(jobs: Sequence[Job]) -> None:
    """Tables, states and metrics know a job by its name. Raises PipelineError where two have the same."""
    names = [job.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise PipelineError(f"two of the jobs are called {name}; their names must differ")


def _stepwise(
    job: Job,
    spark: SparkSession | None,
    stop: Event | None,
    on_step: OnStep | None,
    steps: Callable[[SparkSession, Callable[[], bool]], Iterable[Step]],
) -> Result:
    """Run what is done piece by piece."""
    from sordini.pipeline.jobs.graceful_stop import BatchGate, stop_on_signals

    result, gate = Result(job.name), BatchGate(stop)
    with ready([job], spark) as session, stop_on_signals(gate):
        for step in steps(session, lambda: gate.is_shut):
            result.add(step.batch)
            if on_step is not None:
                on_step(step)
    result.was_stopped = gate.is_shut
    return result


def _add(result: Result, batch: Batch, on_batch: OnBatch | None) -> None:
    result.add(batch)
    if on_batch is not None:
        on_batch(result.name, batch)


def _ended(results: Mapping[str, Result], gate: BatchGate) -> list[Result]:
    for result in results.values():
        result.was_stopped = gate.is_shut
    return list(results.values())


def _or_none(on_notice: OnNotice | None) -> Callable[[str], None]:
    def notice(text: str) -> None:
        if on_notice is not None:
            on_notice(text)

    return notice


def _edge(edge: Edge | None) -> Offsets | int | None:
    if edge is None:
        return None
    if isinstance(edge, datetime):
        return _milliseconds(edge)
    return {topic: {int(number): int(at) for number, at in each.items()} for topic, each in edge.items()}


def _milliseconds(moment: datetime) -> int:
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
