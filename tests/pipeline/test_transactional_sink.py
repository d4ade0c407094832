"""The format `sordini` as a sink with a transactional id: each batch is one transaction, and is there exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.pipeline.batches import end
from tests.pipeline.sent import KEEP, committed_values, fill
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 60


@pytest.mark.long
def test_a_frame_is_written_as_one_transaction(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    topic = place.make_topic(3, configs=KEEP)
    frame = spark.range(3000).repartition(3).selectExpr("concat('key-', id) as key", "concat('value-', id) as value")
    options = {"topic": topic, "kafka.transactional.id": uuid4().hex, "stagingLocation": str(tmp_path / "staging")}
    writer = frame.write.format("sordini").option("kafka.bootstrap.servers", place.bootstrap).options(**options)
    writer.option("kafka.batch.size", "4000").option("kafka.compression.type", "zstd").mode("append").save()
    assert committed_values(place.bootstrap, topic, 3) == sorted(f"value-{number}" for number in range(3000))
    assert not list((tmp_path / "staging").iterdir()), "what was staged is deleted"


@pytest.mark.slow
def test_a_stream_writes_each_batch_as_a_transaction_and_goes_on_after_a_restart(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    expected = []
    for first in (0, COUNT):
        expected += [row.value or "" for row in fill(place.bootstrap, source, COUNT, first=first)]
        reader = spark.readStream.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
        frame = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="25").load()
        writer = frame.select("key", "value").writeStream.format("sordini")
        options = {"topic": target, "checkpointLocation": str(tmp_path / "checkpoint")}
        writer = writer.option("kafka.bootstrap.servers", place.bootstrap).options(**options)
        end(writer.option("kafka.transactional.id", source).trigger(availableNow=True).start())
        assert committed_values(place.bootstrap, target) == sorted(expected)
