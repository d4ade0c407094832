"""Spark with Delta's or Iceberg's own connector: `python table_engine.py KIND JARS JAVA_OPTIONS`.

In an environment of its own, it writes and reads tables as their other programs do. It says "ready"; then each line of
standard input is a request as JSON, and is answered by a line of JSON: rows, or {"error": ...}. The end of the input
ends it. A request has the table's `location` (a folder; of Iceberg the catalog is in it) and one of these:

    sql         a statement; a table of Iceberg is `sordini.default.<folder>`, one of Delta "delta.`<location>`"
    stream      options: all that a stream reads until now, by the checkpoint `checkpoint`
    equality    of Iceberg: a Parquet file of keys, to be committed as an equality delete of the field `field`
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import DataFrame, SparkSession

COMMON = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Plans are interpreted: for a few rows that takes far less time than to compile Java for each of them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
OF_KIND = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        # By default a VACUUM has some thousand tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    },
    "iceberg": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
STREAM_SECONDS = 60
Request = Mapping[str, Any]


def main(kind: str, jars: str, java_options: str) -> None:
    builder = SparkSession.builder
    given = {"spark.jars": jars, "spark.driver.extraJavaOptions": java_options}
    for key, value in {**COMMON, **OF_KIND[kind], **given}.items():
        builder = builder.config(key, value)
    # Delta's VACUUM prints to the standard output of the JVM.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = builder.getOrCreate()
    say(answers, "ready")
    for line in sys.stdin:
        try:
            say(answers, answer(session(spark, kind, json.loads(line)["location"]), kind, json.loads(line)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test prints it
            say(answers, {"error": str(error)})
    spark.stop()


def session(spark: SparkSession, kind: str, location: str) -> SparkSession:
    """A session of its own for each request of Iceberg.

    A catalog's driver of SQLite keeps reading transactions open, which do not see what comes later.
    """
    if kind == "delta":
        return spark
    fresh = spark.newSession()
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{location}/catalog.db",
        ".warehouse": f"file://{location}",
        ".cache-enabled": "false",
    }
    for name, value in settings.items():
        fresh.conf.set(f"spark.sql.catalog.sordini{name}", value)
    return fresh


def answer(spark: SparkSession, kind: str, request: Request) -> object:
    if "stream" in request:
        return streamed(spark, kind, request)
    if "equality" in request:
        return delete_equal(spark, request)
    return rows_of(spark.sql(request["sql"]))


def rows_of(frame: DataFrame) -> list[list[Any]]:
    return [list(row) for row in frame.collect()]


def streamed(spark: SparkSession, kind: str, request: Request) -> list[list[Any]]:
    """The rows of all micro-batches, in the order in which they came."""
    found: list[list[Any]] = []
    where = request["location"] if kind == "delta" else table_of(request)
    frame = spark.readStream.format(kind).options(**request["stream"]).load(where)
    writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(rows_of(batch)))
    query = writer.trigger(availableNow=True).option("checkpointLocation", request["checkpoint"]).start()
    try:
        if not query.awaitTermination(STREAM_SECONDS):
            raise TimeoutError(f"the stream did not end within {STREAM_SECONDS} s")
    finally:
        query.stop()
    return found


def delete_equal(spark: SparkSession, request: Request) -> list[list[Any]]:
    """Spark writes no equality deletes, as Flink does: the file is committed through Iceberg's own library."""
    jvm, path = spark._jvm, Path(request["equality"])
    jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table_of(request))
    fields = spark._sc._gateway.new_array(jvm.int, 1)
    fields[0] = request["field"]
    builder = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(fields)
    builder = builder.withPath(path.as_uri()).withFormat("parquet").withRecordCount(request["rows"])
    table.newRowDelta().addDeletes(builder.withFileSizeInBytes(path.stat().st_size).build()).commit()
    return []


def table_of(request: Request) -> str:
    return f"sordini.default.{Path(request['location']).name}"


def say(answers: TextIO, text: object) -> None:
    answers.write(json.dumps(text, default=str) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
