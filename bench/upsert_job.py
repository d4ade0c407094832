"""One side of `bench/upserts_by_spark.py`, in a Spark session of its own: `python -m bench.upsert_job SIDE SETTINGS`.

SIDE is `ours` (a job that upserts) or `theirs` (MERGE of Delta's connector in foreachBatch, as in its documentation).
Both read the same topic through the same source, in batches of the same size. SETTINGS is JSON: `spark`, `bootstrap`,
`topic`, `folder`, `location` of the table, its `storage` (empty for a folder), `records_max`. It prints the seconds of
all batches, the processor's seconds of them (of Spark and all that it starts), and the table's rows, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.procfs import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id long, name string, age int, score double"
JOB = """\
name: people
source: {bootstrap: %(bootstrap)s, topics: [%(topic)s], records_max: %(records_max)s}
decode:
  mode: json
  changes: debezium
  schema: {fields: {id: long!, name: string, age: int, score: double}}
  columns: {lsn: source.lsn long}
sink: {location: "%(location)s", mode: upsert, keys: id, sequence: lsn}
"""


def ours(spark: SparkSession, settings: dict[str, Any]) -> None:
    from sordini.pipeline.jobs.job_file import read_job
    from sordini.pipeline.jobs.stream import stream

    path = Path(settings["folder"]) / "job.yaml"
    storage = f"storage: {json.dumps(settings['storage'])}\n" if settings["storage"] else ""
    path.write_text(JOB % settings + storage, encoding="utf-8")
    stream([read_job(path, {})], spark, available_now=True, on_batch=lambda *_: None, notice=lambda _: None)


def theirs(spark: SparkSession, settings: dict[str, Any]) -> None:
    from pyspark.sql import functions as sql
    from pyspark.sql.window import Window

    location = settings["location"].replace("s3://", "s3a://")
    spark.sql(
        f"CREATE TABLE delta.`{location}` ({COLUMNS}, lsn long) USING delta "
        "TBLPROPERTIES (delta.enableDeletionVectors = true)"
    )
    shape = f"before struct<{COLUMNS}>, after struct<{COLUMNS}>, source struct<lsn long>, op string"
    newest_first = Window.partitionBy("id").orderBy(sql.col("lsn").desc())

    def merge(batch: DataFrame, _: int) -> None:
        change = batch.select(sql.from_json(sql.col("value").cast("string"), shape).alias("c"))
        row = sql.when(sql.col("c.op") == "d", sql.col("c.before")).otherwise(sql.col("c.after"))
        rows = change.select(row.alias("row"), "c.source.lsn", "c.op").select("row.*", "lsn", "op")
        rows = rows.withColumn("place", sql.row_number().over(newest_first)).where("place = 1").drop("place")
        rows.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{location}` AS t USING changes AS s ON t.id = s.id "
            "WHEN MATCHED AND s.lsn >= t.lsn AND s.op = 'd' THEN DELETE "
            "WHEN MATCHED AND s.lsn >= t.lsn THEN UPDATE SET id = s.id, name = s.name, age = s.age, score = s.score, "
            "lsn = s.lsn "
            "WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (id, name, age, score, lsn) "
            "VALUES (s.id, s.name, s.age, s.score, s.lsn)"
        )

    options = {
        "kafka.bootstrap.servers": settings["bootstrap"],
        "subscribe": settings["topic"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(settings["records_max"]),
    }
    frame = spark.readStream.format("sordini").options(**options).load()
    writer = frame.writeStream.foreachBatch(merge).option("checkpointLocation", f"{settings['folder']}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def options(settings: dict[str, Any]) -> dict[str, str]:
    """Of the library that counts the table's rows; the keys come by the environment."""
    storage = settings["storage"]
    if not storage:
        return {}
    return {"endpoint": storage["endpoint"], "region": storage["region"], "allow_http": "true"}


def main(side: str, text: str) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from sordini.pipeline.source import register

    settings = json.loads(text)
    builder = SparkSession.builder
    for key, value in settings["spark"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    began, cpu = time.monotonic(), cpu_seconds(os.getpid())
    {"ours": ours, "theirs": theirs}[side](spark, settings)
    seconds, cpu = time.monotonic() - began, cpu_seconds(os.getpid()) - cpu
    rows = pa.table(DeltaTable(settings["location"], storage_options=options(settings)).scan(columns=["id"])).num_rows
    sys.stdout.write(json.dumps([seconds, cpu, rows]) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
