"""What the source `sordini` shows of transactions: with Apache Kafka as the broker."""

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
WAYS = (("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", "leave open"))


@pytest.fixture(scope="module")
def topic(apache: str) -> str:
    """One committed transaction of three records, one aborted, one committed, and one that is open."""
    topic = Place(apache).make_topic(1)
    producer = Producer({"bootstrap.servers": apache, "transactional.id": topic})
    producer.init_transactions(30)
    for name, way in WAYS:
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{name}{number}".encode(), partition=0)
        producer.flush(30)
        if way == "commit":
            producer.commit_transaction(30)
        if way == "abort":
            producer.abort_transaction(30)
    return topic


@pytest.mark.long
def test_read_committed_ends_before_the_open_transaction_and_hides_the_aborted(
    spark: SparkSession, apache: str, topic: str, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": apache, "subscribe": topic, "startingOffsets": "earliest"}
    committed = [f"{name}{number}" for name in "ac" for number in range(3)]
    for more in ({}, {"minPartitions": "4"}):
        frame = spark.read.format("sordini").options(**options, **COMMITTED, **more).load()
        assert [row.value for row in rows(frame)] == committed
    everything = [row.value for row in rows(spark.read.format("sordini").options(**options).load())]
    assert everything == [f"{name}{number}" for name in "abcd" for number in range(3)]
    batches = Batches(tmp_path / "checkpoint")
    batches.drain(spark.readStream.format("sordini").options(**options, **COMMITTED, maxOffsetsPerTrigger="2").load())
    assert [row.value for row in batches.everything] == committed
