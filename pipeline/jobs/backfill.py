"""`backfill`: writes the records of a range that the table lacks; existing rows are neither changed nor duplicated.

Rows have the position of their record, so records with a row are skipped before anything is decoded. A job that upserts
repeats all changes of the range instead: those that are late change nothing, which takes a sequence. A dead letter that
can be decoded now (after a schema was corrected) becomes a row; others are not changed. For an aggregate, windows that
its table lacks are written: the last ones, which no watermark passed, and those before the aggregate existed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.aggregate import app_id
from sordini.pipeline.jobs.any_sink import AnySink
from sordini.pipeline.jobs.batch_writer import Batch, BatchWriter, batch_of, decode, open_sink_table, read_records
from sordini.pipeline.jobs.job import DecodeMode, Sink, SinkKind
from sordini.pipeline.jobs.load import Step, distance
from sordini.pipeline.jobs.missing_rows import rows_missing_from
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics
from sordini.pipeline.jobs.topic_sink import TopicSink
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic
from sordini.pipeline.jobs.windows import END, START, not_yet_in, windowed
from sordini.pipeline.schemas.fields import RECORD, RecordColumns
from sordini.pipeline.source.batch_planning import advance
from sordini.pipeline.source.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.jobs.job import Aggregate, Job


class Range(NamedTuple):
    """The requested range: offsets, or times in milliseconds since 1970; None is from the first, up to the last."""

    start: Offsets | int | None = None
    end: Offsets | int | None = None


def backfill(
    job: Job, spark: SparkSession, wanted: Range, is_stopping: Callable[[], bool], into: str = ""
) -> Iterator[Step]:
    """Fill the gaps of the range, a piece at a time; `into` names the location of another table to fill.

    In the job's own table nothing is written past its position: `load` and `stream` write that.
    Raises PipelineError.
    """
    if job.sink is None or job.sink.kind is SinkKind.KAFKA:
        raise PipelineError(f"job {job.name} writes into no table, and only in a table can missing rows be found")
    if job.sink.upsert is not None and not job.sink.upsert.sequence and not into:
        raise PipelineError(
            f"job {job.name} upserts without a sequence, so earlier changes would replace newer rows: use --into with "
            "the location of a new table"
        )
    if into and into.rstrip("/") == job.sink.location.rstrip("/") and "table" not in job.sink.options:
        raise PipelineError(f"--into is {into}, which is the job's own table: leave it out to fill the gaps of that")
    if into:
        dead = _elsewhere(job.dead_letters or job.sink, f"{into.rstrip('/')}-dead")
        job = replace(job, sink=_elsewhere(job.sink, into), dead_letters=dead)
    writer = BatchWriter.of(job, spark, f"{job.name}/backfill")
    start, end = offsets_of(job, wanted)
    if not into:
        end = _up_to(start, end, _reached(job))
    batch_id = _next_batch(writer)
    records_all, done = distance(start, end), 0
    while distance(start, end) > 0 and not is_stopping():
        until = advance(Position(start, {}), Position(end, {}), job.source.records_max).offsets
        batch = _fill(writer, start, until, batch_id)
        done += distance(start, until)
        yield Step(batch, distance(start, until), done, records_all, until)
        start, batch_id = until, batch_id + 1


def close_windows(job: Job, spark: SparkSession, aggregate: Aggregate, from_ms: int | None, to_ms: int) -> Batch:
    """Write the windows of an aggregate, completely within the times, that its table lacks.

    Records are read from the watermark's length before `from_ms` on: an event may be in the topic a little before its
    own time. Raises PipelineError.
    """
    from pyspark.sql import functions as sql

    began = time.monotonic()
    table = open_sink_table(aggregate.sink, f"{app_id(job, aggregate)}/backfill")
    first = None if from_ms is None else max(0, from_ms - round(aggregate.watermark.seconds * 1000))
    start, end = offsets_of(job, Range(first, None))
    rows = windowed(job, aggregate, read_records(job, spark, start, end))
    rows = rows.where(sql.col(END) <= sql.timestamp_millis(sql.lit(to_ms)))
    if from_ms is not None:
        rows = rows.where(sql.col(START) >= sql.timestamp_millis(sql.lit(from_ms)))
    last = table.last()
    batch_id = last[0] + 1 if last else 0
    return batch_of(
        batch_id, table.append(not_yet_in(table, aggregate, rows), batch_id, end), 0, time.monotonic() - began
    )


def offsets_of(job: Job, wanted: Range) -> tuple[Offsets, Offsets]:
    """The start and end of a range as offsets of all partitions, within the logs. Raises PipelineError."""
    topics = SourceTopics.of(job)
    begins, ends = topics.extent()
    start, end = (_edge(topics, edge, begins, ends, at) for edge, at in ((wanted.start, begins), (wanted.end, ends)))
    for topic, partitions in end.items():
        for number, at in partitions.items():
            partitions[number] = max(at, start[topic][number])
    return start, end


def _edge(
    topics: SourceTopics, edge: Offsets | int | None, begins: Offsets, ends: Offsets, default: Offsets
) -> Offsets:
    if edge is None:
        return {topic: dict(each) for topic, each in default.items()}
    found = topics.at_time(edge) if isinstance(edge, int) else edge
    for topic, partitions in found.items():
        for number in partitions:
            if number not in ends.get(topic, {}):
                raise PipelineError(f"{topic}-{number} is none of the job's partitions")
    return {
        topic: {
            number: min(max(found.get(topic, {}).get(number, default[topic][number]), begins[topic][number]), last)
            for number, last in each.items()
        }
        for topic, each in ends.items()
    }


def _elsewhere(sink: Sink, location: str) -> Sink:
    """The same sink at another location, without the table's name in its catalog."""
    options = {name: value for name, value in sink.options.items() if name != "table"}
    return replace(sink, location=location, options=options)


def _reached(job: Job) -> Offsets:
    assert job.sink is not None, "backfill looks first"
    last = open_sink_table(job.sink, job.name).last()
    if last is None:
        raise PipelineError(f"job {job.name} has not written anything yet: begin with `load`")
    return last[1]


def _up_to(start: Offsets, end: Offsets, reached: Offsets) -> Offsets:
    """Limit ends to the table's position; a partition that it lacks, or that begins after it, is left out."""
    return {
        topic: {
            number: max(start[topic][number], min(at, reached.get(topic, {}).get(number, 0)))
            for number, at in each.items()
        }
        for topic, each in end.items()
    }


def _next_batch(writer: BatchWriter) -> int:
    """A number that neither table has: one of them may be older than the other, as it was restored from a copy."""
    sinks = (one for one in (writer.sink, writer.dead_letters) if not isinstance(one, TopicSink))
    return 1 + max((last[0] for one in sinks if (last := one.last()) is not None), default=-1)


def _fill(writer: BatchWriter, start: Offsets, end: Offsets, batch_id: int) -> Batch:
    """Write the missing rows of one piece."""
    began = time.monotonic()
    records = writer.records(start, end)
    if writer.job.sink is None or writer.job.sink.upsert is None:
        records = _missing(writer.sink, records, start, end, writer.job.decode.record)
    decoded = decode(writer.job, records)
    written = writer.write_rows(writer.rows(decoded.rows()), batch_id, end)
    dead = 0
    if writer.job.decode.mode is not DecodeMode.RAW:
        letters = _missing(writer.dead_letters, decoded.dead_letters(), start, end)
        dead = writer.dead_letters.append(letters, batch_id, end).rows
    return batch_of(batch_id, written, dead, time.monotonic() - began)


def _missing(
    table: AnySink, rows: DataFrame, start: Offsets, end: Offsets, record: RecordColumns = RECORD
) -> DataFrame:
    """The rows whose record is not in the table; all rows if the sink is a topic."""
    if isinstance(table, TopicSink | TransactionalTopic):
        return rows
    first = min(at for each in start.values() for at in each.values())
    return rows_missing_from(table, rows, first, max(at for each in end.values() for at in each.values()), record)
