"""The lag of a query of Spark by its checkpoint: of Spark's own Kafka source, and of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.pipeline.topics import Place
from tests.process.test_cli import run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 6
SOURCES: Mapping[str, Mapping[str, str]] = {
    "kafka": {"kafka.bootstrap.servers": "{bootstrap}", "subscribe": "{topic}", "startingOffsets": "earliest"},
    "sordini": {"kafka.bootstrap.servers": "{bootstrap}", "subscribe": "{topic}", "startingOffsets": "earliest"},
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_query_is_behind_by_what_came_after_its_last_batch(
    spark: SparkSession, place: Place, tmp_path: Path, source: str
) -> None:
    topic = place.make_topic(2)
    produce(place.bootstrap, topic, COUNT)
    options = {name: value.format(bootstrap=place.bootstrap, topic=topic) for name, value in SOURCES[source].items()}
    frame = spark.readStream.format(source).options(**options).load()
    checkpoint = tmp_path / "checkpoint"
    writer = frame.select("value").writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert lag(place.bootstrap, checkpoint) == (0, ["caught up", "caught up"])
    produce(place.bootstrap, topic, COUNT)
    assert lag(place.bootstrap, checkpoint) == (COUNT, ["behind", "behind"])


def lag(bootstrap: str, checkpoint: Path) -> tuple[int, list[str]]:
    printed = run_here(bootstrap, "groups", "lag", "--checkpoint", str(checkpoint), "--json").stdout
    (found,) = json.loads(printed)
    return found["lag"], [row["condition"] for row in found["partitions"]]


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(30) == 0
