"""One run of the batch: load, then a graph of steps over one hour, then an output.

    page-views --> load --> views --------+
                                          +--> summary --> summaries/2026-11-26T07.json
    searches ----> load --> searching ----+

A step is a function of the hour and of the results of the steps that it depends on, and of nothing else. So a run can
be repeated for any hour, after a failure or when a step was corrected: the output of that hour is replaced by the same,
or by the corrected one. What is loaded already is not loaded twice; late events are there when an hour is repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from examples.programs import ExampleError
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.load import load

JOBS = Path(__file__).resolve().parent / "jobs"
LOADED = ("page_views", "searches")
BUSIEST = 5


class Hour(NamedTuple):
    """An hour of events; `end` is not in it."""

    start: datetime

    @classmethod
    def before(cls, now: datetime) -> Hour:
        """The last one that is over."""
        return cls(now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1))

    @property
    def end(self) -> datetime:
        return self.start + timedelta(hours=1)

    def __str__(self) -> str:
        return self.start.strftime("%Y-%m-%dT%H")


class Step(NamedTuple):
    """A step of the graph: the loads and steps whose results it takes, in the order of its arguments."""

    depends_on: Sequence[str]
    compute: Callable[..., DataFrame]


def views(page_views: DataFrame) -> DataFrame:
    """Views and visits of each page."""
    counts = sql.count("*").alias("views"), sql.countDistinct("session_id").alias("visits")
    return page_views.groupBy("page").agg(*counts)


def searching(searches: DataFrame) -> DataFrame:
    """How often each visit searched."""
    return searches.groupBy("session_id").agg(sql.count("*").alias("searches"))


def summary(by_page: DataFrame, by_visit: DataFrame) -> DataFrame:
    """One row: the hour in short, of both steps before."""
    pages = by_page.agg(sql.coalesce(sql.sum("views"), sql.lit(0)).alias("views"), sql.count("*").alias("pages"))
    searches = by_visit.agg(
        sql.coalesce(sql.sum("searches"), sql.lit(0)).alias("searches"), sql.count("*").alias("searching_visits")
    )
    ordered = by_page.orderBy(sql.desc("views"), "page").limit(BUSIEST)
    busiest = ordered.agg(sql.sort_array(sql.collect_list(sql.struct("views", "page")), asc=False).alias("busiest"))
    return pages.crossJoin(searches).crossJoin(busiest)


STEPS: Mapping[str, Step] = {
    "summary": Step(["views", "searching"], summary),
    "views": Step(["page_views"], views),
    "searching": Step(["searches"], searching),
}
OUTPUT = "summary"


def order_of(steps: Mapping[str, Step]) -> list[str]:
    """The steps, each after those that it depends on. Raises ExampleError for a circle and for unknown names."""
    unknown = {one for step in steps.values() for one in step.depends_on} - steps.keys() - set(LOADED)
    if unknown:
        raise ExampleError(f"no step and no load is called {', '.join(sorted(unknown))}")
    try:
        ordered = list(TopologicalSorter({name: step.depends_on for name, step in steps.items()}).static_order())
    except CycleError as error:
        raise ExampleError(f"steps depend on each other: {' -> '.join(error.args[1])}") from None
    return [name for name in ordered if name in steps]


def run(spark: SparkSession, bootstrap: str, directory: Path, hour: Hour, steps: Mapping[str, Step] = STEPS) -> Path:
    """Load what has come, compute the hour, and replace its output; the output's path."""
    ordered = order_of(steps)
    results: dict[str, DataFrame] = {}
    for name in LOADED:
        job = read_job(JOBS / f"{name}.yaml", {"HOURLY": str(directory)}, bootstrap)
        load_all(job, spark)
        table = spark.read.parquet(*files_of(directory / "tables" / name))
        results[name] = table.where((sql.col("event_time") >= hour.start) & (sql.col("event_time") < hour.end))
    for name in ordered:
        results[name] = steps[name].compute(*(results[one] for one in steps[name].depends_on))
    (row,) = results[OUTPUT].collect()
    return written(directory, hour, row.asDict(recursive=True))


def load_all(job: Job, spark: SparkSession) -> None:
    for _ in load(job, spark, lambda: False, lambda _notice: None):
        pass


def files_of(table: Path) -> list[str]:
    """The files of a Delta table's newest version."""
    from deltalake import DeltaTable

    return [str(one) for one in DeltaTable(str(table)).file_uris()]


def written(directory: Path, hour: Hour, value: Mapping[str, Any]) -> Path:
    """Write the output beside and rename it: a reader sees a whole one, of this run or of an earlier one."""
    path = directory / "summaries" / f"{hour}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump({"hour": str(hour), **value}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    return path
