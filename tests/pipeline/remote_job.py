"""A program of Spark Connect: reads, streams and writes by our source, and runs a job.

    python remote_job.py BOOTSTRAP TOPIC FOLDER

The session's server is a process that PySpark starts. Each line of standard output is a name and a value in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from sordini.pipeline import Job, PipelineError, aggregate, dead_letters, load, rows, stream
from sordini.pipeline.source import register


def tell(name: str, value: object) -> None:
    sys.stdout.write(json.dumps([name, value]) + "\n")
    sys.stdout.flush()


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except PipelineError as error:
        return str(error)
    return ""


def use_the_source(spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
    register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    tell("read", spark.read.format("sordini").options(**options).load().count())
    frame = spark.readStream.format("sordini").options(**options).load()
    table, checkpoint = str(folder / "streamed"), str(folder / "checkpoint")
    writer = frame.writeStream.format("parquet").option("path", table).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    tell("streamed", spark.read.parquet(table).count())
    one = spark.createDataFrame([(b"from afar",)], "value binary").write.format("sordini").mode("append")
    one.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()


def run_a_job(spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
    job = Job.of(
        name="afar",
        home=folder,
        source={"bootstrap": bootstrap, "topics": [topic]},
        decode={"mode": "json", "schema": {"fields": {"n": "int!", "event_time": "timestamp"}}},
        sink={"location": "table"},
        aggregates={"minutes": {"window": "1 minute", "sink": {"location": "minutes"}}},
    )
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    done = load(job, spark=spark)
    tell("zone", spark.conf.get("spark.sql.session.timeZone"))
    tell("loaded", [done.rows, done.dead_letters])
    tell("rows", rows(job, spark).count())
    tell("dead", [letter.value.decode() for letter in dead_letters(job, spark) if letter.value])
    tell("stream", refusal(lambda: stream(job, available_now=True, spark=spark)))
    tell("aggregate", refusal(lambda: aggregate(job, available_now=True, spark=spark)))


def main(bootstrap: str, topic: str, folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    use_the_source(spark, bootstrap, topic, Path(folder))
    run_a_job(spark, bootstrap, topic, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
