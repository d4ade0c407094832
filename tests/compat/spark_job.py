"""A program for an older PySpark: read a topic as a batch, with Spark's source in three ways and with ours, and write.

    python spark_job.py BOOTSTRAP TOPIC TARGET JAR...

Some of the topic is written to another. The last line of standard output is JSON: the rows of each way of reading, as [partition, offset, timestamp in ms,
key, value, headers].
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sordini.pipeline.source import register


def session(jars: list[str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("smoke")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows(frame: DataFrame) -> list[list[object]]:
    text = [f.col(name).cast("string") for name in ("key", "value")]
    headers = f.transform("headers", lambda one: f.concat_ws("=", one["key"], one["value"].cast("string")))
    wanted = frame.select("partition", "offset", f.unix_millis("timestamp"), *text, headers)
    return sorted([list(row) for row in wanted.collect()], key=lambda row: row[:2])


def main(bootstrap: str, topic: str, target: str, *jars: str) -> None:
    spark = session(list(jars))

    def read(**options: str) -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.options(includeHeaders="true", **options).load()

    def read_with_ours(**options: str) -> DataFrame:
        register(spark)
        reader = spark.read.format("sordini").option("kafka.bootstrap.servers", bootstrap)
        return reader.options(includeHeaders="true", **options).load()

    everything = read(subscribe=topic)
    some = json.dumps({topic: {"0": 5, "1": -2}})  # -2: from the earliest.
    ends = json.dumps({topic: {"0": 8, "1": 3}})
    middle = 1_710_000_000_000 + 10_000
    found = {
        "version": spark.version,
        "everything": rows(everything),
        "offsets": rows(read(subscribe=topic, startingOffsets=some, endingOffsets=ends)),
        "since": rows(read(assign=json.dumps({topic: [0]}), startingTimestamp=str(middle), minPartitions="3")),
    }
    chosen = everything.where("offset < 4").select("key", f.upper(f.col("value").cast("string")).alias("value"))
    writer = chosen.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("kafka.compression.type", "zstd").option("topic", target).save()
    found["written"] = rows(read(subscribe=target))
    found["ours"] = rows(read_with_ours(subscribe=topic))
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
