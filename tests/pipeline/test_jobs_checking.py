"""Errors in a job file that only Spark detects are reported before anything runs, with the file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sordini.pipeline.jobs.job import JobFileError
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.spark_checks import check_transform, plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """\
name: views
source: {topics: [views]}
decode:
  mode: json
  schema:
    fields: {n: int!, event_time: timestamp!, page: string}
transform: MODULE:marked
sink:
  location: tables/views
  partition_by: [event_date]
aggregates:
  per_minute:
    window: 1 minute
    by: [page]
    where: n > 3
    measures: {views: count(*), most: max(n)}
    sink: {location: tables/per_minute, partition_by: [page]}
audit: {counts: counts.jsonl, time: event_time}
"""
FUNCTIONS = """\
from pyspark.sql import functions as sql


def marked(rows):
    return rows.withColumn("is_odd", sql.col("n") % 2 == 1)


def fails(rows):
    return rows.select(rows["pge"])


def raises(rows):
    return {}["x"]


def narrow(rows):
    return rows.drop("page")


def counts(rows):
    return 3


number = 3
"""


def a_job(folder: Path, *change: str) -> Path:
    """The job file with a change made; its functions are in a module that no other test has."""
    module = f"functions_{abs(hash(str(folder)))}"
    (folder / f"{module}.py").write_text(FUNCTIONS)
    path = folder / "job.yaml"
    assert not change or change[0] in JOB
    path.write_text((JOB.replace(*change) if change else JOB).replace("MODULE", module))
    return path


def test_a_job_that_means_something_passes(tmp_path: Path, spark: SparkSession) -> None:
    job = read_job(a_job(tmp_path), {})
    check_transform(job)
    plan(job, spark)
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("before", "after", "reported"),
    [
        ("count(*)", "cuont(*)", r":16: aggregates\.per_minute\.measures\.views cannot be: .*Cannot resolve routine `cuont`.*\(did you mean count\?\)"),
        ("max(n)", "max(m)", r":16: aggregates\.per_minute\.measures\.most cannot be: .*`m` cannot be resolved.*`n`"),
        ("n > 3", "n >> ", r":15: aggregates\.per_minute\.where cannot be: \[PARSE_SYNTAX_ERROR\]"),
        ("by: [page]", "by: [pge]", r":14: aggregates\.per_minute\.by has 'pge', and the rows have no such column; they have n, .*is_odd \(did you mean page\?\)"),
        ("[event_date]", "[is_od]", r":10: sink\.partition_by has 'is_od', and the rows have n, .*\(did you mean is_odd\?\)"),
        ("[event_date]", "[event_time]", r":10: sink\.partition_by cannot be: the table is to be partitioned by 'event_time', which is timestamp"),
        ("time: event_time", "time: event_tim", r":18: audit\.time is 'event_tim', and the rows have n, .*\(did you mean event_time\?\)"),
        ("MODULE:marked", "MODULE:narrow", r":14: aggregates\.per_minute\.by has 'page', and the rows have no such column"),
        ("MODULE:marked", "MODULE:fails", r":7: transform cannot be: transform functions_\d+:fails failed: .*`?pge`? "),
        ("MODULE:marked", "MODULE:raises", r":7: transform cannot be: transform functions_\d+:raises failed: KeyError: 'x'"),
        ("MODULE:marked", "MODULE:counts", r":7: transform cannot be: transform functions_\d+:counts returns int, and has to return a DataFrame"),
    ],
)  # fmt: skip
def test_what_spark_does_not_understand_is_reported_with_its_place_in_one_line(
    tmp_path: Path, spark: SparkSession, before: str, after: str, reported: str
) -> None:
    path = a_job(tmp_path, before, after)
    with pytest.raises(JobFileError, match=rf"^{path}{reported}") as caught:
        plan(read_job(path, {}), spark)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("after", "reported"),
    [
        ("MODULE:markd", r":7: transform is 'functions_\d+:markd': .*functions_\d+\.py has no markd \(did you mean marked\?\)"),
        ("MODULE:number", r":7: transform is 'functions_\d+:number': is no function, but int"),
        ("nowhere_to_be_found:marked", r":7: transform is 'nowhere_to_be_found:marked': .*No module named"),
    ],
)  # fmt: skip
def test_a_transform_that_is_not_there_is_reported_without_spark(tmp_path: Path, after: str, reported: str) -> None:
    path = a_job(tmp_path, "MODULE:marked", after)
    with pytest.raises(JobFileError, match=rf"^{path}{reported}"):
        check_transform(read_job(path, {}))
