"""`resume`: restores the offsets of a job's last batch in a Delta table that has lost them.

Rows have the position of their record, and every record is a row or a dead letter (or was left out by the transform, as
it would be again): so records after the greatest offsets of both were not read yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.batch_writer import open_sink_table
from sordini.pipeline.jobs.job import Job, SinkKind
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics
from sordini.pipeline.schemas.fields import RECORD
from sordini.pipeline.tables.table import LostPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.tables.delta.delta_lake import DeltaLake


def lost(job: Job) -> list[tuple[int, DeltaLake]]:
    """The job's tables that have lost its position, each with the number of its last batch.

    Raises PipelineError if none has: moving a valid position would lose or duplicate rows.
    """
    found: list[tuple[int, DeltaLake]] = []
    known: list[tuple[int, Offsets]] = []
    for sink in (job.sink, job.dead_letters):
        if sink is None or sink.kind is SinkKind.KAFKA:
            continue
        table = open_sink_table(sink, job.name)
        try:
            last = table.last()
        except LostPosition as error:
            found.append((error.batch_id, cast("DeltaLake", table)))
        else:
            known += [last] if last else []
    if not found:
        where = f": it continues after batch {known[0][0]}" if known else ": nothing was written yet"
        raise PipelineError(f"the tables of {job.name} have its position{where}; there is nothing to restore")
    return found


def checked(job: Job, offsets: Offsets) -> Offsets:
    """Offsets of all the job's partitions and of no others. Raises PipelineError, also where the records are gone."""
    begins, ends = SourceTopics.of(job).extent()
    wanted = {(topic, number) for topic, each in ends.items() for number in each}
    given = {(topic, number) for topic, each in offsets.items() for number in each}
    for what, places in (("leaves out", wanted - given), ("has", given - wanted)):
        if places:
            reported = ", ".join(f"{topic}-{number}" for topic, number in sorted(places))
            raise PipelineError(f"--from-offsets {what} {reported}: it names every partition of the job and no other")
    for topic, number in sorted(given):
        first, end, at = begins[topic][number], ends[topic][number], offsets[topic][number]
        if not first <= at <= end:
            raise PipelineError(f"--from-offsets: {topic}-{number} has offsets {first} to {end}, and not {at}")
    return offsets


def after_rows(job: Job, spark: SparkSession) -> Offsets:
    """The offsets after the greatest of the rows and dead letters. Raises PipelineError where there are none."""
    from pyspark.sql import functions as sql

    offsets: Offsets = {}
    for sink in (job.sink, job.dead_letters):
        if sink is None or sink.kind is SinkKind.KAFKA:
            continue
        table = open_sink_table(sink, job.name)
        if table.schema() is None:
            continue
        record = job.decode.record if sink is job.sink else RECORD
        rows = (
            table.read(spark, columns=record.identity)
            .groupBy(sql.col(record.topic).alias("topic"), sql.col(record.partition).alias("partition"))
            .agg(sql.max(record.offset).alias("last"))
        )
        for row in rows.collect():
            ends = offsets.setdefault(row["topic"], {})
            ends[row["partition"]] = max(ends.get(row["partition"], 0), row["last"] + 1)
    ours = {topic: ends for topic, ends in offsets.items() if job.source.reads(topic)}
    if not ours:
        raise PipelineError(f"the tables of {job.name} have no rows: set the position with --from-offsets")
    return ours


def note(tables: list[tuple[int, DeltaLake]], offsets: Offsets) -> int:
    """Store the offsets in the tables as a batch without rows, and return its number. Raises TableError."""
    batch_id = 1 + max(number for number, _ in tables)
    for _, table in tables:
        table.set_position(batch_id, offsets)
    return batch_id
