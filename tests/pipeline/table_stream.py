"""A streaming job into a table that kills itself, Spark and all, at a given moment.

    python table_stream.py SETTINGS BOOTSTRAP TOPIC KIND LOCATION CHECKPOINT DEATH

SETTINGS is JSON. DEATH is `never`, or `before` or `after` and the number of a batch: with its files staged but not
committed, or committed but unknown to Spark's checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from sordini.pipeline.source import register
from sordini.pipeline.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Watched:
    """A batch's frame, as much of it as tables use: what is to happen when it has been staged, happens."""

    def __init__(self, frame: DataFrame, then: Any) -> None:
        self._frame = frame
        self._then = then
        self.schema = frame.schema

    def mapInArrow(self, *arguments: Any) -> Watched:  # noqa: N802
        return Watched(self._frame.mapInArrow(*arguments), self._then)

    def collect(self) -> list[Any]:
        rows = self._frame.collect()
        self._then()
        return rows


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(settings: str, bootstrap: str, topic: str, kind: str, location: str, checkpoint: str, death: str) -> None:
    builder = SparkSession.builder
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    when, _, number = death.partition(" ")
    table = open_table(kind, location, app_id="stream")

    def write(frame: DataFrame, batch_id: int) -> None:
        is_last = str(batch_id) == number
        watched: Any = Watched(frame, die) if is_last and when == "before" else frame
        table.append(watched, batch_id)
        if is_last and when == "after":
            die()

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("sordini").options(**options, maxOffsetsPerTrigger="100").load()
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
