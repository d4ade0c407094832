"""`stream`: writes records to the sink as they arrive, batch by batch, until it is stopped.

A Structured Streaming query reads, and `batch_writer.py` writes each batch, so that `load` and `stream` of one job do
the same and can alternate: each begins where the table ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs import checkpoints, streaming_queries
from sordini.pipeline.jobs.batch_writer import Batch, BatchWriter, reader_options
from sordini.pipeline.jobs.graceful_stop import BatchGate
from sordini.pipeline.jobs.job import SourceFormat
from sordini.pipeline.jobs.load import begin, distance, finish, known_ids
from sordini.pipeline.jobs.missing_rows import records_after
from sordini.pipeline.jobs.pending_records import position_after
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics, offsets_text
from sordini.pipeline.jobs.state_folder import StateFolder, job_state
from sordini.pipeline.source.spark_versions import ADMISSION, is_before

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.jobs.job import Job

OnBatch = Callable[["Job", Batch], None]


def stream(
    jobs: list[Job],
    spark: SparkSession,
    *,
    available_now: bool,
    on_batch: OnBatch,
    notice: Callable[[str], None],
    gate: BatchGate | None = None,
) -> None:
    """Run the streams of several jobs on one session, until they end: with `available_now` when all is read.

    `on_batch` is called after every batch, in the query's thread. Raises PipelineError.
    """
    shared = gate or BatchGate()

    def query(job: Job) -> streaming_queries.Query:
        state = job_state(job)

        def start(held: ExitStack) -> streaming_queries.Running:
            return _start(
                job, spark, state, held, available_now=available_now, on_batch=on_batch, notice=notice, gate=shared
            )

        return state, start

    streaming_queries.run_all(map(query, jobs), shared)


def _start(
    job: Job,
    spark: SparkSession,
    state: StateFolder,
    held: ExitStack,
    *,
    available_now: bool,
    on_batch: OnBatch,
    notice: Callable[[str], None],
    gate: BatchGate,
) -> streaming_queries.Running:
    writer = BatchWriter.of(job, spark)
    topics = SourceTopics.of(job)
    writer.check()
    for step in finish(writer, state, topics):
        on_batch(job, step.batch)
    _, pending = begin(writer, state, topics)
    below, reached = state.below("stream"), writer.reached()
    choice = checkpoints.choose(
        below,
        reached,
        fingerprint(job),
        table_has_position=not writer.sink_is_topic,
        topic_ids=pending.topic_ids,
    )
    if choice.why:
        notice(f"{job.name}: a new checkpoint begins, as {choice.why}")
    for said in pending.notices:
        notice(f"{job.name}: {said}")
    if choice.is_new:
        checkpoints.put_in_force(below, choice.checkpoint, pending.start)

    flow = Flow(writer, topics, reached, known_ids(state, reached), lambda said: notice(f"{job.name}: {said}"))

    def write(records: DataFrame, batch_id: int) -> None:
        number = batch_id - choice.checkpoint.first_batch_id
        end = checkpoints.planned_end(below, choice.checkpoint, number)
        if end is None:
            raise PipelineError(f"Spark's checkpoint {below.location} has no batch {number}, which it is running")
        # A first batch that is repeated begins where it did then, and not where this run would begin.
        start = checkpoints.planned_start(below, choice.checkpoint, number)
        on_batch(job, flow.write(records, batch_id, start, end))

    frame = spark.readStream.format(job.source.format.value).options(**stream_options(job, offsets_text(pending.start)))
    return streaming_queries.start(
        frame.load(),
        job,
        below,
        choice.checkpoint,
        write,
        name=job.name,
        available_now=available_now,
        gate=gate,
        # Only the driver uses the checkpoint of a query without windows.
        mirror=held.enter_context(below.checkpoint(choice.checkpoint.folder, is_local=True)),
    )


class Flow:
    """The batches of a query, from its checkpoint into the sink.

    The sink keeps the job's positions in topics that are not there now, which the checkpoint does not have: a topic
    that comes back is new to Spark, and only what follows its position is written. Until Spark is there the sink keeps
    the position; a run that begins meanwhile gets a new checkpoint, as the sink has other offsets than this one.
    """

    def __init__(
        self,
        writer: BatchWriter,
        topics: SourceTopics,
        reached: tuple[int, Offsets] | None,
        topic_ids: dict[str, str],
        notice: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._topics = topics
        self._topic_ids = topic_ids
        self._notice = notice
        self._last, self._position = (-1, {}) if reached is None else reached
        self._back: Offsets = {}
        """The positions in topics that came back, as long as Spark is before them."""

    def write(self, records: DataFrame, batch_id: int, start: Offsets, end: Offsets) -> Batch:
        """Write a batch. One of an earlier run is not read again: `finish` has seen to its dead letters."""
        if batch_id <= self._last:
            return Batch(batch_id, 0, 0, 0, 0, 0.0, was_there=True, records=0)
        came = {topic: at for topic, at in self._position.items() if topic in end and topic not in start}
        if came:
            pending = self._topics.pending(self._writer.job, came, self._topic_ids)
            for said in pending.notices:
                self._notice(said)
            self._back |= {topic: pending.start[topic] for topic in came if topic in pending.start}
        if self._back:
            records = records_after(records, self._back)
        offsets = position_after(self._position, self._back, end)
        batch = self._writer.write(records, batch_id, offsets, distance(start, end))
        self._last, self._position = batch_id, offsets
        self._back = {topic: at for topic, at in self._back.items() if end.get(topic) != offsets[topic]}
        return batch


def fingerprint(job: Job) -> dict[str, Any]:
    """What a checkpoint of a stream belongs to."""
    source = job.source
    return {"format": source.format.value, "topics": sorted(source.topics), "pattern": source.pattern}


def stream_options(job: Job, starting: str, aggregate: str = "") -> dict[str, str]:
    """The options of a stream that starts at these offsets, unless its checkpoint has a position.

    An aggregate commits to a separate group, as its position differs. Raises PipelineError for a PySpark that cannot
    bound a micro-batch.
    """
    if job.source.format is SourceFormat.SORDINI and is_before(installed := version("pyspark"), ADMISSION):
        raise PipelineError(
            f"streams with the format sordini are bounded by source.records_max, which needs PySpark 4.2, and this is "
            f"{installed}: use `load`, or source.format: kafka"
        )
    options = {
        **reader_options(job),
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": str(job.source.records_max),
    }
    group = job.source.commit_group
    return {**options, "commit_group": f"{group}-{aggregate}" if aggregate else group} if group else options
