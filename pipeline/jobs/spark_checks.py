"""Checks a job's transform and its Spark SQL expressions: Spark analyses a frame without rows.

Errors name the file, the line, the key and the allowed values, before anything is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from sordini.cli.common.settings_tree import near_to
from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.batch_writer import decode, with_deletions, with_times
from sordini.pipeline.jobs.job import Aggregate, Job, JobFileError, Sink, SinkKind, UpsertSettings
from sordini.pipeline.jobs.job_file_tree import line_of
from sordini.pipeline.jobs.row_columns import check_column
from sordini.pipeline.jobs.transforms import load_transform, transformed
from sordini.pipeline.jobs.windows import windowed
from sordini.pipeline.tables import Upsert
from sordini.pipeline.tables.columns import arrow_schema, check_partitions
from sordini.pipeline.tables.upsert import check_upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
_NO_FUNCTION: Final = re.compile(r"\[UNRESOLVED_ROUTINE\].*?`(\w+)`")


def check_transform(job: Job) -> None:
    """Check that the transform can be imported. Raises JobFileError."""
    if job.transform:
        try:
            load_transform(job)
        except PipelineError as error:
            said = str(error).removeprefix(f"transform {job.transform}").strip(": ")
            _wrong(job, ("transform",), f"is {job.transform!r}: {said}")


def plan(job: Job, spark: SparkSession) -> None:
    """Let Spark analyse all that the job does with rows; nothing is run. Raises JobFileError, with the line."""
    records = spark.createDataFrame([], _RECORDS)
    decoded = decode(job, records).rows()
    rows = _planned(job, ("transform",), lambda: transformed(job, decoded)) if job.transform else decoded
    if job.sink is not None:
        timed = with_times(job, rows)
        if job.sink.upsert is not None:
            _plan_upsert(job, job.sink.upsert, timed)
        _plan_sink(job, ("sink",), job.sink, timed)
    for one in job.aggregates:
        _plan_aggregate(job, one, rows, records)
    if job.audit is not None and job.audit.time not in rows.columns:
        near = near_to(job.audit.time, rows.columns)
        _wrong(job, ("audit", "time"), f"is {job.audit.time!r}, and the rows have {', '.join(rows.columns)}{near}")


def _plan_upsert(job: Job, upsert: UpsertSettings, rows: DataFrame) -> None:
    changes = _planned(job, ("sink", "delete_when"), lambda: with_deletions(job, rows))
    try:
        check_upsert(Upsert(upsert.keys, upsert.sequence), arrow_schema(changes.schema))
    except PipelineError as error:
        _wrong(job, ("sink",), f"cannot be: {error}")


def _plan_aggregate(job: Job, aggregate: Aggregate, rows: DataFrame, records: DataFrame) -> None:
    from pyspark.sql import functions as sql

    at = ("aggregates", aggregate.name)
    if aggregate.where:
        _planned(job, (*at, "where"), lambda: rows.where(aggregate.where))
    for name in aggregate.by:
        check_column(name, dict.fromkeys(rows.columns, ""), lambda problem: _wrong(job, (*at, "by"), problem))
    for name, text in aggregate.measures.items():
        _planned(job, (*at, "measures", name), lambda text=text: rows.groupBy().agg(sql.expr(text)))  # type: ignore[misc]
    windows = _planned(job, at, lambda: windowed(job, aggregate, records))
    _plan_sink(job, (*at, "sink"), aggregate.sink, windows)


def _plan_sink(job: Job, at: tuple[str, ...], sink: Sink, rows: DataFrame) -> None:
    key = sink.options.get("key")
    if sink.kind is SinkKind.KAFKA and key is not None and key not in rows.columns:
        near = near_to(key, rows.columns)
        _wrong(job, (*at, "options", "key"), f"is {key!r}, and the rows have {', '.join(rows.columns)}{near}")
    if sink.kind is SinkKind.KAFKA:
        return
    schema = arrow_schema(rows.schema)
    for name in sink.partition_by:
        if name not in schema.names:
            near = near_to(name, schema.names)
            _wrong(job, (*at, "partition_by"), f"has {name!r}, and the rows have {', '.join(schema.names)}{near}")
    try:
        check_partitions(schema, sink.partition_by)
    except PipelineError as error:
        _wrong(job, (*at, "partition_by"), f"cannot be: {error}")


def _planned(job: Job, at: tuple[str, ...], make: Callable[[], DataFrame]) -> DataFrame:
    """A frame that Spark has analysed."""
    try:
        frame = make()
        frame.schema  # noqa: B018 - Reading the attribute analyses the frame.
    except Exception as error:  # All of them - no common base class; our own bugs are raised again.
        if not has_message(error):
            raise
        _wrong(job, at, f"cannot be: {message_of(error)}{_meant(str(error))}")
    return frame


def _meant(text: str) -> str:
    """A suggestion for an unknown function."""
    from pyspark.sql import functions as sql

    found = _NO_FUNCTION.search(text)
    return near_to(found[1], [name for name in dir(sql) if name.islower()]) if found else ""


def _wrong(job: Job, at: tuple[str, ...], problem: str) -> NoReturn:
    line = line_of(job.file, *at) if job.file else 0
    place = f"{job.file}:{line}: " if line else f"{job.file}: " if job.file else ""
    raise JobFileError(f"{place}{'.'.join(at)} {problem}")
