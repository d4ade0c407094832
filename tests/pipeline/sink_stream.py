"""A driver that streams from topic to topic in transactions, until it is killed: once as a sink of Spark's, once as a job.

    python sink_stream.py SETTINGS BOOTSTRAP SOURCE TARGET CHECKPOINT

SETTINGS is JSON. It says "running" when its query has begun; it never ends by itself unless it fails.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from sordini.pipeline.source import register


def main(settings: str, bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    builder = SparkSession.builder
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    reader = spark.readStream.format("sordini").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="300").load()
    writer = frame.select("key", "value").writeStream.format("sordini").option("kafka.bootstrap.servers", bootstrap)
    options = {"topic": target, "kafka.transactional.id": target, "checkpointLocation": checkpoint}
    query = writer.options(**options, **{"kafka.batch.size": "4000"}).start()
    sys.stdout.write("running\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
