"""`status`, `audit`, `compact`, `rows` and `dead_letters`: what reads and keeps a job's tables, for programs.

Raises PipelineError.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.library.failures import pipeline_errors
from sordini.pipeline.library.sessions import session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from sordini.pipeline.jobs.audit import AuditRow
    from sordini.pipeline.jobs.compact import CompactedTable
    from sordini.pipeline.jobs.job import Job, Sink
    from sordini.pipeline.jobs.status import PartitionProgress

FILE_BYTES: Final = 128 * 2**20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeadLetter(NamedTuple):
    """A record that could not be decoded, with the reason."""

    reason: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    """None where the record has none within the years 1 to 9999."""
    key: bytes | None
    value: bytes | None


def status(job: Job) -> list[PartitionProgress]:
    """Each partition's position and lag, in the table and in each aggregate. Needs no Spark."""
    from sordini.pipeline.jobs.source_topics import SourceTopics
    from sordini.pipeline.jobs.status import status as run

    with pipeline_errors():
        SourceTopics.of(job).check()
        return run(job)


def audit(job: Job, *, spark: SparkSession | None = None) -> list[AuditRow]:
    """The producers' counts beside the table's, window by window.

    A row whose `difference` or `twice` is not 0 is wrong.
    """
    from sordini.pipeline.jobs.audit import audit as run
    from sordini.pipeline.jobs.audit import counts_of

    with pipeline_errors():
        counts = counts_of(job)
        with session_for([job], spark) as session:
            return run(job, session, counts)


def compact(job: Job, *, target_bytes: int = FILE_BYTES, clean_up: bool = False) -> list[CompactedTable]:
    """Merge small files of the job's tables. Needs no Spark, and writers can continue meanwhile.

    With `clean_up` files older than a day that are in no batch are deleted.
    """
    from sordini.pipeline.jobs.compact import compact as run

    with pipeline_errors():
        return list(run(job, target_bytes, clean_up=clean_up))


def rows(job: Job, spark: SparkSession) -> DataFrame:
    """The table as a DataFrame of this session, whatever kind it is of; `toArrow` and `toPandas` make values of it."""
    with pipeline_errors():
        return _read(job, job.sink, spark)


def dead_letters(job: Job, spark: SparkSession, *, limit: int = 100) -> list[DeadLetter]:
    """The newest dead letters, at most `limit` of them; none where no table of dead letters exists yet."""
    from pyspark.sql import functions as sql

    from sordini.pipeline.jobs.batch_writer import open_sink_table

    with pipeline_errors():
        sink = _table_of(job, job.dead_letters)
        if open_sink_table(sink, job.name).schema() is None:
            return []
        letters = _read(job, sink, spark).orderBy("timestamp", "topic", "partition", "offset", ascending=False)
        # As a number: PySpark makes times of the driver's own zone.
        found = letters.select(*DeadLetter._fields).withColumn("timestamp", sql.unix_micros("timestamp")).limit(limit)
        return [_dead_letter(row) for row in found.collect()]


def _read(job: Job, sink: Sink | None, spark: SparkSession) -> DataFrame:
    from sordini.pipeline.jobs.batch_writer import open_sink_table

    table = open_sink_table(_table_of(job, sink), job.name)
    if table.schema() is None:
        raise PipelineError(f"there is no table at {table.location} yet")
    return table.read(spark)


def _table_of(job: Job, sink: Sink | None) -> Sink:
    from sordini.pipeline.jobs.job import SinkKind

    if sink is None or sink.kind is SinkKind.KAFKA:
        raise PipelineError(f"job {job.name} writes into no table that could be read")
    return sink


def _dead_letter(row: Row) -> DeadLetter:
    key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
    moment = None if row["timestamp"] is None else _EPOCH + timedelta(microseconds=row["timestamp"])
    return DeadLetter(row["reason"], row["topic"], row["partition"], row["offset"], moment, key, value)
