"""Writes one batch: records become rows in the sink, and records that cannot be decoded become dead letters
(`dead_letters.py`), which are committed before the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, assert_never

from sordini.pipeline.changes.collapse import Order, collapsed
from sordini.pipeline.changes.decoding import ChangeColumns, from_json_changes, from_registered_changes
from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.any_sink import AnySink
from sordini.pipeline.jobs.batch_files import tasks_of
from sordini.pipeline.jobs.dead_letters import write_dead_letters
from sordini.pipeline.jobs.job import DecodeMode, Job, Sink, SinkKind, SourceFormat
from sordini.pipeline.jobs.job_schema import registered_of, schema_now
from sordini.pipeline.jobs.load_pieces import last_before_expiry
from sordini.pipeline.jobs.source_topics import Offsets, assignment, batch_options, offsets_text
from sordini.pipeline.jobs.state_folder import StateFolder, job_state
from sordini.pipeline.jobs.topic_sink import TopicSink
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic
from sordini.pipeline.jobs.transforms import transformed
from sordini.pipeline.jobs.upkeep import Upkeep, UpkeepStep
from sordini.pipeline.schemas import decoding
from sordini.pipeline.schemas.fields import RECORD, RecordColumns
from sordini.pipeline.schemas.values.plain_values import FIRST_US, LAST_US
from sordini.pipeline.source.sink_options import TRANSACTIONAL_ID
from sordini.pipeline.tables import Table, Upsert, Written, open_table
from sordini.pipeline.tables.upsert import DELETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Batch(NamedTuple):
    """The result of a batch. One that had been written before has `was_there` and zero counts."""

    batch_id: int
    rows: int
    dead: int
    files: int
    bytes: int
    seconds: float
    was_there: bool
    records: int | None = None
    """The number of records read; None for an aggregate's batch."""
    upkeep: tuple[UpkeepStep, ...] = ()
    """What was done for the tables after the batch; not part of `seconds`."""


@dataclass(frozen=True)
class BatchWriter:
    """A job on a session. `app_id` identifies it in its sinks."""

    job: Job
    spark: SparkSession
    sink: AnySink
    dead_letters: AnySink
    upkeep: Upkeep | None = None
    """Of the sink; None if that is a topic, and for another program's writer."""
    upkeep_of_dead_letters: Upkeep | None = None

    @classmethod
    def of(cls, job: Job, spark: SparkSession, app_id: str = "") -> BatchWriter:
        """Open the job's sinks. Raises PipelineError if there are none, or they cannot be opened."""
        if job.sink is None or job.dead_letters is None:
            raise PipelineError(f"job {job.name} has no sink: its file needs one for this command")
        name = app_id or job.name
        sink, dead_letters = open_sink(job, job.sink, name, job.decode.record), open_sink(job, job.dead_letters, name)
        state = job_state(job)
        of_both = upkeep_of(sink, job.sink, state), upkeep_of(dead_letters, job.dead_letters, state)
        return cls(job, spark, sink, dead_letters, *of_both)

    def check(self) -> None:
        """Check that both sinks can be opened, before anything is read for them. Raises PipelineError."""
        for what, sink in (("sink", self.sink), ("dead_letters", self.dead_letters)):
            if isinstance(sink, TopicSink):
                continue
            try:
                columns = sink.schema()
            except Exception as error:  # All of them - no common base class; our own bugs are raised again.
                if not has_message(error) or isinstance(error, PipelineError):
                    raise
                raise PipelineError(f"{what} {sink.location} cannot be opened: {message_of(error)}") from error
            if what == "sink" and columns is not None and not self.job.transform:
                _check_record_columns(self.job, sink.location, columns.names)

    def reached(self) -> tuple[int, Offsets] | None:
        """The last batch in the sink and the offsets after it, if the sink stores them."""
        if isinstance(self.sink, TopicSink):
            return None
        last = self.sink.last()
        if last is None and isinstance(self.sink, TransactionalTopic):
            # Tables keep their position; a group's offsets expire.
            return last_before_expiry(job_state(self.job), self.sink.location, self.sink.group)
        return last

    @property
    def sink_is_topic(self) -> bool:
        """Whether the job's position is only in its state."""
        return isinstance(self.sink, TopicSink)

    def records(self, start: Offsets, end: Offsets) -> DataFrame:
        """The records from `start` up to `end`, as a batch."""
        return read_records(self.job, self.spark, start, end)

    def rows(self, good: DataFrame) -> DataFrame:
        """The valid rows in the form of the sink."""
        return with_times(self.job, transformed(self.job, good))

    def write_rows(
        self,
        rows: DataFrame,
        batch_id: int,
        offsets: Offsets,
        before_commit: Callable[[], object] | None = None,
        size: int | None = None,
    ) -> Written:
        """Append rows in the form of the sink, or upsert them. Raises the sink's errors.

        With their number, about, they become as few files as they need.
        """
        upsert = self.job.sink.upsert if self.job.sink else None
        if upsert is None or isinstance(self.sink, TopicSink | TransactionalTopic):
            return self.sink.append(in_tasks(self.sink, self.job.sink, rows, size), batch_id, offsets, before_commit)
        order = order_of(self.job, rows.columns)
        changes = collapsed(with_deletions(self.job, rows), upsert.keys, order.columns)
        how = Upsert(upsert.keys, order.sequence, deletions_kept_seconds=upsert.deletions_kept.seconds)
        changes = in_tasks(self.sink, self.job.sink, changes, size)
        return self.sink.upsert(changes, batch_id, how, offsets, before_commit)

    def write(self, records: DataFrame, batch_id: int, offsets: Offsets, size: int | None = None) -> Batch:
        """Write one complete batch; `offsets` are those after it. Raises the sink's errors.

        With its number of records, about, it becomes as few files as it needs. Upkeep that is due follows.
        """
        from pyspark.sql import Observation

        began = time.monotonic()
        decoded = decode(self.job, records)
        seen = Observation()
        counted = decoded.frame.observe(seen, *decoded.counts())
        can_be_dead = self.job.decode.mode is not DecodeMode.RAW
        dead = 0
        letters = in_tasks(self.dead_letters, self.job.dead_letters, decoded.dead_letters(), size)

        def before_commit() -> None:
            nonlocal dead
            if can_be_dead and seen.get["dead"]:
                dead = write_dead_letters(self.dead_letters, letters, batch_id, offsets, self.sink)

        written = self.write_rows(self.rows(decoded.rows(counted)), batch_id, offsets, before_commit, size)
        if written.was_there and can_be_dead:  # Earlier versions committed the sink first, and may have crashed then.
            dead = write_dead_letters(self.dead_letters, letters, batch_id, offsets, self.sink, is_in_sink=True)
        records_read = 0 if written.was_there else seen.get["records"]
        batch = batch_of(batch_id, written, dead, time.monotonic() - began, records_read)
        return batch._replace(upkeep=self._keep_up(written, dead))

    def _keep_up(self, written: Written, dead: int) -> tuple[UpkeepStep, ...]:
        """Upkeep of both tables, if this batch changed them."""
        done: tuple[UpkeepStep, ...] = ()
        if self.upkeep is not None and not written.was_there:
            done += self.upkeep.after_batch(written.files, written.bytes)
        if self.upkeep_of_dead_letters is not None and dead:
            done += self.upkeep_of_dead_letters.after_batch(1, 0)
        return done


def upkeep_of(opened: AnySink, sink: Sink, state: StateFolder) -> Upkeep | None:
    """The upkeep of a sink; None if that is a topic."""
    return None if isinstance(opened, TopicSink | TransactionalTopic) else Upkeep(opened, sink.upkeep, state)


def in_tasks(opened: AnySink, sink: Sink | None, rows: DataFrame, size: int | None) -> DataFrame:
    """The rows in as many tasks as their table is to get files; a topic has no files."""
    if size is None or sink is None or isinstance(opened, TopicSink | TransactionalTopic):
        return rows
    return rows.coalesce(tasks_of(size, sink.files_per_batch))


def _check_record_columns(job: Job, location: str, names: list[str]) -> None:
    """That a table of the job has the position of its rows in the columns of the job. Raises PipelineError."""
    lacking = [name for name in job.decode.record.identity if name not in names]
    if lacking:
        raise PipelineError(
            f"the table {location} has no column {lacking[0]}: decode.record_prefix does not change once a "
            "table has rows; write to another table"
        )


def batch_of(batch_id: int, written: Written, dead: int, seconds: float, records: int | None = None) -> Batch:
    """The report of a batch."""
    took = round(seconds, 3)
    return Batch(batch_id, written.rows, dead, written.files, written.bytes, took, written.was_there, records)


def open_sink(job: Job, sink: Sink, app_id: str, record: RecordColumns = RECORD) -> AnySink:
    """A table, or a topic that takes the same calls."""
    if sink.kind is not SinkKind.KAFKA:
        return open_sink_table(sink, app_id)
    options = {**job.source.client_options(), **sink.options}
    transactional_id = sink.options.get(TRANSACTIONAL_ID)
    if transactional_id is None:
        return TopicSink(sink.location, options, record)
    options[TRANSACTIONAL_ID] = transactional_id + app_id.removeprefix(job.name)
    return TransactionalTopic(sink.location, options, f"{job.state}/staged/{options[TRANSACTIONAL_ID]}", record)


def open_sink_table(sink: Sink, app_id: str) -> Table:
    """The table of a sink that is not a topic."""
    return open_table(
        sink.kind.value,
        sink.location,
        app_id=app_id,
        partition_by=sink.partition_by,
        storage=sink.storage,
        **sink.options,
    )


def reader_options(job: Job) -> dict[str, str]:
    """The reader's options of batches and streams, for the job's format."""
    options = batch_options(job.source)
    if job.source.format is SourceFormat.SORDINI:
        options["columns"] = ",".join(decoding.source_columns(job.decode.keep))
    elif "headers" in job.decode.keep:
        options["includeHeaders"] = "true"
    return options


def read_records(job: Job, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
    """The records from `start` up to `end`, as a batch. Partitions that only `end` has begin at 0."""
    options = reader_options(job)
    for name in ("subscribe", "subscribePattern"):
        options.pop(name, None)
    since = {topic: {number: start.get(topic, {}).get(number, 0) for number in each} for topic, each in end.items()}
    # Without those that have no records in the range: their topics may be gone.
    read = {
        topic: {number: at for number, at in each.items() if since[topic][number] < at} for topic, each in end.items()
    }
    until = {topic: each for topic, each in read.items() if each} or end
    since = {topic: {number: since[topic][number] for number in each} for topic, each in until.items()}
    edges = {"startingOffsets": offsets_text(since), "endingOffsets": offsets_text(until)}
    return spark.read.format(job.source.format.value).options(assign=assignment(until), **edges, **options).load()


def decode(job: Job, records: DataFrame) -> decoding.Decoded:
    """Decode records to columns, or to a reason; see schemas/decoding.py."""
    how, prefix = job.decode, job.decode.record_prefix
    records = _with_times_of_tables(records)
    if how.mode is DecodeMode.RAW:
        return decoding.raw(records, how.keep, prefix)
    schema = schema_now(job)
    upsert = job.sink.upsert if job.sink else None
    columns = ChangeColumns(upsert.keys, upsert.sequence, how.columns) if upsert else None
    match how.mode:
        case DecodeMode.JSON if columns:
            return from_json_changes(records, schema, how.keep, how.changes, columns, prefix)
        case DecodeMode.SCHEMA_ID_PREFIX if columns:
            registered = registered_of(job)
            return from_registered_changes(records, schema, how.keep, how.changes, columns, registered, prefix)
        case DecodeMode.JSON:
            return decoding.from_json(records, schema, how.keep, prefix)
        case DecodeMode.KEY_VALUE:
            return decoding.from_pairs(records, schema, how.keep, prefix, how.between, how.equals)
        case DecodeMode.SCHEMA_ID_PREFIX:
            return decoding.from_schema_id(records, schema, how.keep, registered_of(job), prefix)
        case _:
            assert_never(how.mode)


def _with_times_of_tables(records: DataFrame) -> DataFrame:
    """Records whose time is within the years 1 to 9999, or null.

    A producer that takes microseconds for milliseconds makes times of the year 58000, which files have and readers of
    tables have not: one such record would stop the job.
    """
    from pyspark.sql import functions as sql

    first, last = (sql.timestamp_micros(sql.lit(at)) for at in (FIRST_US, LAST_US))
    return records.withColumn("timestamp", sql.when(sql.col("timestamp").between(first, last), sql.col("timestamp")))


def with_deletions(job: Job, rows: DataFrame) -> DataFrame:
    """Rows of changes with their mark: by the envelope, and by the job's condition. Raises PipelineError."""
    from pyspark.sql import functions as sql

    upsert = job.sink.upsert if job.sink else None
    assert upsert is not None, "the job upserts"
    if DELETED not in rows.columns:
        if job.decode.mode in {DecodeMode.JSON, DecodeMode.SCHEMA_ID_PREFIX}:
            raise PipelineError(f"transform {job.transform} leaves {DELETED} out, which marks the deletions")
        rows = rows.withColumn(DELETED, sql.lit(False))
    if not upsert.delete_when:
        return rows
    return rows.withColumn(DELETED, sql.col(DELETED) | sql.coalesce(sql.expr(upsert.delete_when), sql.lit(False)))


def order_of(job: Job, columns: Sequence[str]) -> Order:
    """The order of the changes of rows with these columns. Raises PipelineError if they have none."""
    assert job.sink is not None
    assert job.sink.upsert is not None, "the job upserts"
    sequence, record = job.sink.upsert.sequence, job.decode.record
    lacking = [name for name in record.identity if name not in columns]
    if lacking and not sequence:
        raise PipelineError(
            f"transform {job.transform} leaves {lacking[0]} out, which orders the changes of a key where the sink has "
            "no sequence"
        )
    topic, partition, offset = (name if name in columns else "" for name in record.identity)
    return Order.of(sequence, (topic, partition, offset), has_one_topic=len(job.source.topics) == 1)


def with_times(job: Job, rows: DataFrame) -> DataFrame:
    """Add event_date and event_hour if the sink is partitioned by them."""
    from pyspark.sql import functions as sql

    by = job.sink.partition_by if job.sink else ()
    time_column = job.decode.event_time if job.decode.event_time in rows.columns else job.decode.record.timestamp
    if "event_date" in by and "event_date" not in rows.columns:
        rows = rows.withColumn("event_date", sql.to_date(time_column))
    if "event_hour" in by and "event_hour" not in rows.columns:
        rows = rows.withColumn("event_hour", sql.hour(time_column))
    return rows
