"""One Spark session that measures: `python -m bench.pipeline_job SETTINGS DIRECTORY`, driven line by line.

SETTINGS is JSON. It says "ready"; then each line of standard input is a `Task` as JSON, and is answered by the seconds
that it took with the rows it has seen, as JSON as well. The end of the input ends it.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

COUNT, SUM, PARQUET, DELTA = "count", "sum(length(value))", "to Parquet", "to Delta"
WORKS = (COUNT, SUM, PARQUET, DELTA)
WRITE = "write"


class Task(NamedTuple):
    """work: one of WORKS, or WRITE; format and options: the source's, or the sink's."""

    work: str
    format: str
    options: dict[str, str]
    records: int = 0
    """To write."""


def main(settings: str, directory: str) -> None:
    from pyspark.sql import SparkSession

    from sordini.pipeline.source import register

    builder = SparkSession.builder
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    _say("ready")
    for number, line in enumerate(sys.stdin):
        task = Task(**json.loads(line))
        target = Path(directory) / f"table-{number}"
        began = time.monotonic()
        if task.work == WRITE:
            rows = _write(spark, task)
        else:
            rows = _run(spark.read.format(task.format).options(**task.options).load(), task.work, target)
        _say([time.monotonic() - began, rows])
        shutil.rmtree(target, ignore_errors=True)
    spark.stop()


def _run(frame: Any, work: str, target: Path) -> int:
    """How many rows that was; of a sum, the bytes."""
    from sordini.pipeline.tables import open_table

    if work == COUNT:
        return int(frame.count())
    if work == SUM:
        return int(frame.selectExpr("sum(length(value))").first()[0])
    if work == PARQUET:
        frame.write.parquet(str(target))
        return _lines(target)
    return open_table("delta", str(target), app_id="bench").append(frame, 0).rows


def _write(spark: Any, task: Task) -> int:
    frame = spark.range(task.records).selectExpr("cast(id as string) as key", "lpad(id, 100, 'x') as value")
    frame.write.format(task.format).options(**task.options).mode("append").save()
    return task.records


def _lines(target: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in target.glob("*.parquet"))


def _say(text: object) -> None:
    sys.stdout.write(json.dumps(text) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
