"""Writes one batch: records become rows in the sink, and records that cannot be decoded become dead letters.

The sink's files are staged first, which also shows whether there are dead letters; only then is the batch read again
for them. They are committed before the sink's files: a batch in the sink always has its dead letters, and if dead
letters cannot be written, nothing of the batch is in the sink. If the process crashes between the two commits, the
batch is repeated and its dead letters exist already: they are recognised by the batch's number and offsets or, if the
repeated batch is a different one (the checkpoint was lost), record by record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, assert_never

from sordini.cli.common.settings_tree import near_to
from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import DecodeMode, Job, Sink, SinkKind, SourceFormat
from sordini.pipeline.jobs.missing_rows import rows_missing_from
from sordini.pipeline.jobs.source_topics import Offsets, assignment, batch_options, offsets_text
from sordini.pipeline.jobs.topic_sink import TopicSink
from sordini.pipeline.schemas import decoding
from sordini.pipeline.tables import Table, Written, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeadLettersFailed(PipelineError):
    """Dead letters cannot be written, so their batch was not committed."""

    def __init__(self, place: Table | TopicSink, error: BaseException, batch_id: int, sink: Table | TopicSink) -> None:
        where = f"topic {place.topic}" if isinstance(place, TopicSink) else place.location
        kept = "is repeated by the next run" if isinstance(sink, TopicSink) else "is not in the sink"
        super().__init__(
            f"the dead letters of batch {batch_id} cannot be written to {where}, so the batch {kept}: "
            f"{message_of(error)}"
        )


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


@dataclass(frozen=True)
class BatchWriter:
    """A job on a session. `app_id` identifies it in its sinks."""

    job: Job
    spark: SparkSession
    sink: Table | TopicSink
    dead_letters: Table | TopicSink

    @classmethod
    def of(cls, job: Job, spark: SparkSession, app_id: str = "") -> BatchWriter:
        """Open the job's sinks. Raises PipelineError if there are none, or they cannot be opened."""
        if job.sink is None or job.dead_letters is None:
            raise PipelineError(f"job {job.name} has no sink: its file needs one for this command")
        name = app_id or job.name
        return cls(job, spark, open_sink(job, job.sink, name), open_sink(job, job.dead_letters, name))

    def check(self) -> None:
        """Check that both sinks can be opened, before anything is read for them. Raises PipelineError."""
        for what, sink in (("sink", self.sink), ("dead_letters", self.dead_letters)):
            if isinstance(sink, TopicSink):
                continue
            try:
                sink.schema()
            except Exception as error:  # All of them - no common base class; our own bugs are raised again.
                if not has_message(error) or isinstance(error, PipelineError):
                    raise
                raise PipelineError(f"{what} {sink.location} cannot be opened: {message_of(error)}") from error

    def reached(self) -> tuple[int, Offsets] | None:
        """The last batch in the sink and the offsets after it, if the sink stores them."""
        return None if isinstance(self.sink, TopicSink) else self.sink.last()

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

    def write(self, records: DataFrame, batch_id: int, offsets: Offsets) -> Batch:
        """Write one complete batch; `offsets` are those after it. Raises the sink's errors."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        began = time.monotonic()
        decoded = decode(self.job, records)
        seen = Observation()
        counts = sql.count(sql.lit(1)).alias("records"), sql.count_if(decoding.DEAD).alias("dead")
        counted = decoded.frame.observe(seen, *counts)
        can_be_dead = self.job.decode.mode is not DecodeMode.RAW
        dead = 0

        def bury() -> None:
            nonlocal dead
            if can_be_dead and seen.get["dead"]:
                dead = self._bury(decoded, batch_id, offsets)

        written = self.sink.append(self.rows(decoded.rows(counted)), batch_id, offsets, bury)
        if written.was_there and can_be_dead:  # Earlier versions committed the sink first, and may have crashed then.
            dead = self._bury(decoded, batch_id, offsets)
        records_read = 0 if written.was_there else seen.get["records"]
        return batch_of(batch_id, written, dead, time.monotonic() - began, records_read)

    def _bury(self, decoded: decoding.Decoded, batch_id: int, offsets: Offsets) -> int:
        """Write the dead letters of a batch and return how many. Raises DeadLettersFailed."""
        letters, place = decoded.dead_letters(), self.dead_letters
        try:
            last = None if isinstance(place, TopicSink) else place.last()
            if isinstance(place, TopicSink) or last is None or last[0] < batch_id or last == (batch_id, offsets):
                return place.append(letters, batch_id, offsets).rows
            # An attempt that stored another batch under this number, or a later one, crashed before its commit.
            end = max(at for each in offsets.values() for at in each.values())
            return place.append(rows_missing_from(place, letters, 0, end), last[0] + 1, offsets).rows
        except Exception as error:  # All of them - no common base class; our own bugs are raised again.
            if not has_message(error):
                raise
            raise DeadLettersFailed(place, error, batch_id, self.sink) from error


def batch_of(batch_id: int, written: Written, dead: int, seconds: float, records: int | None = None) -> Batch:
    """The report of a batch."""
    took = round(seconds, 3)
    return Batch(batch_id, written.rows, dead, written.files, written.bytes, took, written.was_there, records)


def open_sink(job: Job, sink: Sink, app_id: str) -> Table | TopicSink:
    """A table, or a topic that takes the same calls."""
    if sink.kind is SinkKind.KAFKA:
        return TopicSink(sink.location, {**job.source.client_options(), **sink.options})
    return open_sink_table(sink, app_id)


def open_sink_table(sink: Sink, app_id: str) -> Table:
    """The table of a sink that is not a topic."""
    return open_table(sink.kind.value, sink.location, app_id=app_id, partition_by=sink.partition_by, **sink.options)


def reader_options(job: Job) -> dict[str, str]:
    """The reader's options of batches and streams, for the job's format."""
    options = batch_options(job.source)
    if job.source.format is SourceFormat.SORDINI:
        options["columns"] = ",".join(decoding.source_columns(job.decode.keep))
    elif "headers" in job.decode.keep:
        options["includeHeaders"] = "true"
    return options


def read_records(job: Job, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
    """The records from `start` up to `end`, as a batch."""
    options = reader_options(job)
    for name in ("subscribe", "subscribePattern"):
        options.pop(name, None)
    edges = {"startingOffsets": offsets_text(start), "endingOffsets": offsets_text(end)}
    return spark.read.format(job.source.format.value).options(assign=assignment(end), **edges, **options).load()


def decode(job: Job, records: DataFrame) -> decoding.Decoded:
    """Decode records to columns, or to a reason; see schemas/decoding.py."""
    how = job.decode
    if how.mode is DecodeMode.RAW:
        return decoding.raw(records, how.keep)
    assert how.schema is not None, "only raw records have no schema"
    match how.mode:
        case DecodeMode.JSON:
            return decoding.from_json(records, how.schema, how.keep)
        case DecodeMode.KEY_VALUE:
            return decoding.from_pairs(records, how.schema, how.keep, how.between, how.equals)
        case DecodeMode.SCHEMA_ID_PREFIX:
            return decoding.from_schema_id(records, how.schema, how.keep, how.schemas)
        case _:
            assert_never(how.mode)


def transformed(job: Job, rows: DataFrame) -> DataFrame:
    """The rows after the job's transform, if it has one. Raises PipelineError if that fails."""
    if not job.transform:
        return rows
    function = load_transform(job)
    try:
        found = function(rows)
    except Exception as error:  # All of them - the function is the user's.
        reported = message_of(error) if has_message(error) else f"{type(error).__name__}: {error}"
        raise PipelineError(f"transform {job.transform} failed: {reported}") from error
    if not hasattr(found, "mapInArrow"):
        raise PipelineError(f"transform {job.transform} returns {type(found).__name__}, and has to return a DataFrame")
    return found


def load_transform(job: Job) -> Callable[[DataFrame], DataFrame]:
    """Import the job's transform; modules beside the job file take precedence. Raises PipelineError."""
    module_name, _, function_name = job.transform.partition(":")
    home = str(job.home)
    if home not in sys.path:
        sys.path.insert(0, home)
    try:
        found = getattr(import_module(module_name), function_name)
    except (ImportError, SyntaxError) as error:
        raise PipelineError(f"transform {job.transform} (looked for in {home} first): {error}") from error
    except AttributeError:
        module = import_module(module_name)
        functions = [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]
        raise PipelineError(
            f"transform {job.transform}: {module.__file__} has no {function_name}{near_to(function_name, functions)}"
        ) from None
    except Exception as error:  # All of them - the module is the user's, and anything may happen in it.
        raise PipelineError(f"transform {job.transform}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise PipelineError(f"transform {job.transform} is no function, but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def with_times(job: Job, rows: DataFrame) -> DataFrame:
    """Add event_date and event_hour if the sink is partitioned by them."""
    from pyspark.sql import functions as sql

    by = job.sink.partition_by if job.sink else ()
    time_column = job.decode.event_time if job.decode.event_time in rows.columns else "timestamp"
    if "event_date" in by and "event_date" not in rows.columns:
        rows = rows.withColumn("event_date", sql.to_date(time_column))
    if "event_hour" in by and "event_hour" not in rows.columns:
        rows = rows.withColumn("event_hour", sql.hour(time_column))
    return rows
