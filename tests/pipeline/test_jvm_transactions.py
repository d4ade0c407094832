"""What aborted transactions leave behind is hidden from Spark's own source when it reads what is committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.pipeline.batches import Batches
from tests.pipeline.sent import rows
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def topic(apache: str) -> str:
    """One committed transaction of three records, one aborted, one committed, and one that is open."""
    topic = Place(apache).make_topic(1)
    producer = Producer({"bootstrap.servers": apache, "transactional.id": topic})
    producer.init_transactions(30)
    for name, is_committed in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{name}{number}".encode(), partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)
    return topic


@pytest.mark.long
def test_read_committed_hides_the_aborted_and_read_uncommitted_shows_it(
    spark: SparkSession, apache: str, topic: str, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": apache, "subscribe": topic, "startingOffsets": "earliest"}
    committed = spark.read.format("kafka").options(**options, **COMMITTED).load()
    assert [row.value for row in rows(committed)] == ["a0", "a1", "a2", "c0", "c1", "c2"]
    everything = [row.value for row in rows(spark.read.format("kafka").options(**options).load())]
    assert everything == [f"{name}{number}" for name in "abc" for number in range(3)]
    batches = Batches(tmp_path / "checkpoint")
    batches.drain(spark.readStream.format("kafka").options(**options, **COMMITTED, maxOffsetsPerTrigger="2").load())
    assert [row.value for row in batches.everything] == ["a0", "a1", "a2", "c0", "c1", "c2"]
