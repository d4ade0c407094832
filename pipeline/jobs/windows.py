"""Measures by windows of time, over a stream or a batch; and the windows that a table lacks.

A window of one group is in the table once, closed by the stream when the watermark has passed it, or by a backfill.
Duplicates are skipped, so a new checkpoint may read everything again.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.pipeline.jobs.batch_writer import decode
from sordini.pipeline.jobs.missing_rows import anti_join
from sordini.pipeline.jobs.transforms import transformed
from sordini.pipeline.tables.arrow_reading import Within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sordini.pipeline.jobs.job import Aggregate, Job
    from sordini.pipeline.tables import Table

START, END = "window_start", "window_end"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def windowed(job: Job, aggregate: Aggregate, records: DataFrame) -> DataFrame:
    """One row for each window and group: its start and end, the columns of `by`, the measures.

    A stream returns a row when the watermark has passed its window; in a batch every window is closed.
    """
    from pyspark.sql import functions as sql

    rows = transformed(job, decode(job, records).rows())
    if aggregate.where:
        rows = rows.where(aggregate.where)
    time = job.decode.event_time
    if rows.isStreaming:
        rows = rows.withWatermark(time, aggregate.watermark.text)
    window = sql.window(time, aggregate.window.text, aggregate.slide.text)
    measures = [sql.expr(text).alias(name) for name, text in aggregate.measures.items()]
    grouped = rows.groupBy(window.alias("window"), *aggregate.by).agg(*measures)
    return grouped.select(
        sql.col("window.start").alias(START), sql.col("window.end").alias(END), *aggregate.by, *aggregate.measures
    )


class Extent(NamedTuple):
    """How many windows there are, and the starts of the first and of the last one."""

    windows: int
    first: dt.datetime | None
    last: dt.datetime | None


def extent_of(rows: DataFrame) -> Extent:
    """Runs the frame."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import TimestampType

    counted = [sql.count(sql.lit(1)).alias("windows")]
    if isinstance(rows.schema[START].dataType, TimestampType):  # A time without a zone is no moment.
        micros = sql.unix_micros(START)
        counted += [sql.min(micros).alias("first"), sql.max(micros).alias("last")]
    (found,) = rows.agg(*counted).collect()
    edges = (found["first"], found["last"]) if "first" in found else (None, None)
    first, last = (None if at is None else _EPOCH + dt.timedelta(microseconds=at) for at in edges)
    return Extent(found["windows"], first, last)


def not_yet_in(table: Table, aggregate: Aggregate, rows: DataFrame, extent: Extent | None = None) -> DataFrame:
    """The rows whose window and group the table lacks.

    With the rows' extent only those files of the table are read that can have windows within it, so that the time does
    not grow with the table.
    """
    if table.schema() is None:
        return rows
    keys = (START, END, *aggregate.by)
    within = None
    if extent is not None and extent.first is not None and extent.last is not None:
        within = Within(START, extent.first, extent.last + dt.timedelta(microseconds=1))
    there = table.read(rows.sparkSession, columns=keys, within=within)
    return anti_join(rows, there, keys)
