"""A driver for a cluster of workers: reads a topic through our source, and says who has read what.

    python worker_job.py SETTINGS BOOTSTRAP TOPIC CHECKPOINT

SETTINGS is JSON. Each line of standard output is JSON: first the offsets of a whole batch by the folder of the
executor that has read them, as [partition, offset] pairs; then one such list for each batch of a stream.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from sordini.pipeline.source import register

if TYPE_CHECKING:
    import pyarrow as pa


def with_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the folder that this runs in: each executor of a standalone cluster has its own."""
    import pyarrow as pa

    for batch in batches:
        folder = pa.array([os.getcwd()] * batch.num_rows, pa.string())  # noqa: PTH109  Told, not opened.
        yield pa.RecordBatch.from_arrays([*batch.columns, folder], names=[*batch.schema.names, "folder"])


def pairs(frame: DataFrame) -> list[list[int]]:
    return sorted([row.partition, row.offset] for row in frame.select("partition", "offset").collect())


def tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(settings: str, bootstrap: str, topic: str, checkpoint: str) -> None:
    builder = SparkSession.builder
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.read.format("sordini").options(**options).load().select("partition", "offset")
    read = frame.mapInArrow(with_executor, "partition int, offset long, folder string")
    folders: dict[str, list[list[int]]] = {}
    for row in read.collect():
        folders.setdefault(row.folder, []).append([row.partition, row.offset])
    tell(folders)
    stream = spark.readStream.format("sordini").options(**options, maxOffsetsPerTrigger="40").load()
    writer = stream.writeStream.foreachBatch(lambda batch, _: tell(pairs(batch)))
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
