"""Measures by windows of time, over a stream or a batch; and the windows that a table lacks.

A window of one group is in the table once, closed by the stream when the watermark has passed it, or by a backfill.
Duplicates are skipped, so a new checkpoint may read everything again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.pipeline.jobs.batch_writer import decode, transformed
from sordini.pipeline.jobs.missing_rows import anti_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sordini.pipeline.jobs.job import Aggregate, Job
    from sordini.pipeline.tables import Table

START, END = "window_start", "window_end"


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


def not_yet_in(table: Table, aggregate: Aggregate, rows: DataFrame) -> DataFrame:
    """The rows whose window and group the table lacks."""
    if table.schema() is None:
        return rows
    keys = (START, END, *aggregate.by)
    there = table.read(rows.sparkSession).select(*keys)
    return anti_join(rows, there, keys)
