"""`compact`: merges small files of a job's tables; deletes files left by writers that crashed before their commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sordini.pipeline.jobs.aggregate import app_id
from sordini.pipeline.jobs.batch_writer import open_sink_table
from sordini.pipeline.jobs.job import Job, Sink, SinkKind


class CompactedTable(NamedTuple):
    """The result for one table, in files."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    cleared: int


def compact(job: Job, target_bytes: int, *, clean_up: bool) -> Iterator[CompactedTable]:
    """Compact every existing table of the job. Needs no Spark. Raises PipelineError."""
    for sink, name in tables(job):
        table = open_sink_table(sink, name)
        if table.schema() is None:
            continue
        done = table.compact(target_bytes, sink.upkeep.cluster_by)
        yield CompactedTable(sink.location, *done, cleared=len(table.clean_up()) if clean_up else 0)


def tables(job: Job) -> list[tuple[Sink, str]]:
    """The job's sinks that are tables, and its `app_id` in them."""
    of_rows = [(sink, job.name) for sink in (job.sink, job.dead_letters) if sink is not None]
    of_windows = [(one.sink, app_id(job, one)) for one in job.aggregates]
    return [(sink, name) for sink, name in (*of_rows, *of_windows) if sink.kind is not SinkKind.KAFKA]
