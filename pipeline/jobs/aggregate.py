"""`aggregate`: measures by windows of time, written when the watermark has passed the window's end.

Open windows are only in the state of Spark's checkpoint. If that is lost, or older than the table, a new checkpoint
reads again from the job's first position, and windows that the table has are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs import checkpoints, streaming_queries
from sordini.pipeline.jobs.batch_writer import Batch, batch_of, in_tasks, open_sink_table
from sordini.pipeline.jobs.graceful_stop import BatchGate
from sordini.pipeline.jobs.load import find_pending, known_ids, started_at
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics, offsets_text
from sordini.pipeline.jobs.state_folder import StateFolder, job_state
from sordini.pipeline.jobs.stream import fingerprint, stream_options
from sordini.pipeline.jobs.upkeep import Upkeep
from sordini.pipeline.jobs.windows import extent_of, not_yet_in, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.jobs.job import Aggregate, Job

OnBatch = Callable[["Aggregate", Batch], None]
WRITTEN: Final = "written.json"
"""The last batch that had windows: a table without it is an older copy."""


def aggregate(
    job: Job,
    spark: SparkSession,
    wanted: list[Aggregate],
    *,
    available_now: bool,
    on_batch: OnBatch,
    notice: Callable[[str], None],
    gate: BatchGate | None = None,
) -> None:
    """Run the queries of these aggregates until they end; see `stream`. Raises PipelineError."""
    shared = gate or BatchGate()

    def query(one: Aggregate) -> streaming_queries.Query:
        state = state_of(job, one)

        def start(held: ExitStack) -> streaming_queries.Running:
            starter = _Starter(job, one, spark, state, notice)
            return starter.start(held, available_now=available_now, on_batch=on_batch, gate=shared)

        return state, start

    streaming_queries.run_all(map(query, wanted), shared)


def state_of(job: Job, aggregate: Aggregate) -> StateFolder:
    """The folder of one aggregate's state."""
    return job_state(job).below(f"aggregate-{aggregate.name}")


def app_id(job: Job, aggregate: Aggregate) -> str:
    """The `app_id` of an aggregate in its table."""
    return f"{job.name}/{aggregate.name}"


class _Starter:
    """One aggregate's query, before it runs."""

    def __init__(
        self, job: Job, aggregate: Aggregate, spark: SparkSession, state: StateFolder, notice: Callable[[str], None]
    ) -> None:
        self._job = job
        self._aggregate = aggregate
        self._spark = spark
        self._state = state
        self._notice = notice
        self._table = open_sink_table(aggregate.sink, app_id(job, aggregate))
        self._upkeep = Upkeep(self._table, aggregate.sink.upkeep, state)

    def start(
        self, held: ExitStack, *, available_now: bool, on_batch: OnBatch, gate: BatchGate
    ) -> streaming_queries.Running:
        last = self._table.last()
        written = int((self._state.read(WRITTEN) or {}).get("batch_id", -1))
        choice = checkpoints.choose(self._state, last, self._fingerprint(), skips_batches=True, written=written)
        if choice.why:
            self._notice(f"{self._aggregate.name}: all is read again with a new checkpoint, as {choice.why}")
        starting = self._starting(last, is_new=choice.is_new)
        if choice.is_new:
            checkpoints.put_in_force(self._state, choice.checkpoint)
            # Last, as what it says of a table that is an older copy is why the checkpoint is new.
            self._state.write(WRITTEN, {"batch_id": last[0] if last else -1})

        def write(rows: DataFrame, batch_id: int) -> None:
            number = batch_id - choice.checkpoint.first_batch_id
            end = checkpoints.planned_end(self._state, choice.checkpoint, number)
            if end is None:
                raise PipelineError(f"Spark's checkpoint {self._state.location} has no batch {number}")
            batch = self._write(rows, batch_id, end)
            on_batch(self._aggregate, batch)

        is_local = str(self._spark.conf.get("spark.master", "local")).startswith("local")
        source = self._spark.readStream.format(self._job.source.format.value)
        records = source.options(**stream_options(self._job, starting, self._aggregate.name)).load()
        return streaming_queries.start(
            windowed(self._job, self._aggregate, records),
            self._job,
            self._state,
            choice.checkpoint,
            write,
            name=app_id(self._job, self._aggregate),
            available_now=available_now,
            gate=gate,
            mirror=held.enter_context(self._state.checkpoint(choice.checkpoint.folder, is_local=is_local)),
        )

    def _write(self, rows: DataFrame, batch_id: int, end: dict[str, dict[int, int]]) -> Batch:
        """Write the windows of a batch; without any the table is not changed."""
        began = time.monotonic()
        kept = rows.persist()
        try:
            extent = extent_of(kept)
            if not extent.windows:
                return Batch(batch_id, 0, 0, 0, 0, round(time.monotonic() - began, 3), was_there=False)
            new = not_yet_in(self._table, self._aggregate, kept, extent)
            new = in_tasks(self._table, self._aggregate.sink, new, extent.windows)
            written = self._table.append(new, batch_id, end)
            self._state.write(WRITTEN, {"batch_id": batch_id})
            batch = batch_of(batch_id, written, 0, time.monotonic() - began)
            done = () if written.was_there else self._upkeep.after_batch(written.files, written.bytes)
            return batch._replace(upkeep=done)
        finally:
            kept.unpersist()

    def _fingerprint(self) -> dict[str, Any]:
        one = self._aggregate
        found = {
            **fingerprint(self._job),
            "window": [one.window.seconds, one.slide.seconds],
            "by": list(one.by),
            "measures": dict(one.measures),
            "where": one.where,
        }
        current = checkpoints.read_current(self._state)
        changed = [
            name
            for name in ("window", "by", "measures", "where")
            if current and current.fingerprint.get(name) != found[name]
        ]
        if changed and self._table.schema() is not None:
            raise PipelineError(
                f"aggregates.{one.name}: {' and '.join(changed)} changed, and its table has windows as it was before: "
                "use another name and location"
            )
        return found

    def _starting(self, last: tuple[int, Offsets] | None, *, is_new: bool) -> str:
        """Where a new checkpoint begins: where the first one did, without what is gone and was read before."""
        topics = SourceTopics.of(self._job)
        started = started_at(self._state, 0)
        if started is not None and not is_new:
            return offsets_text(started)
        if started is not None and last is not None:
            there = still_there(started, topics.extent()[0], last[1])
            if there != started:
                self._notice(
                    f"{self._aggregate.name}: retention has deleted records that were read before: windows that were "
                    "open then are written without them"
                )
            started = there
        pending = find_pending(self._job, topics, self._state, 0, started, known_ids(self._state, None))
        for said in pending.notices:
            self._notice(f"{self._aggregate.name}: {said}")
        return offsets_text(pending.start)


def still_there(started: Offsets, begins: Offsets, reached: Offsets) -> Offsets:
    """A first position past the records that retention deleted after they were read: those up to `reached`."""
    return {
        topic: {
            number: max(at, min(begins.get(topic, {}).get(number, 0), reached.get(topic, {}).get(number, 0)))
            for number, at in each.items()
        }
        for topic, each in started.items()
    }
