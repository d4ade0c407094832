"""Both of Spark's sources read exactly what is committed of transactions that were written while brokers were killed.

Some are committed, some aborted, one is open in the end; a stream reads along, with a broker missing each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.cluster.cluster import OURS, Cluster, Partition
from tests.cluster.history import History, broken_transactions
from tests.cluster.loads import Transactor, read_all
from tests.exactly_once.judge import ASSIGNMENT, BROKERS, SAFE, SETTINGS
from tests.pipeline.batches import Batches
from tests.pipeline.sent import Row, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

TRANSACTIONS = 30
PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("transactions"), zookeeper, "3.9")
    try:
        made.start(dict.fromkeys(BROKERS, OURS), SETTINGS)
        yield made
    finally:
        made.close()


class Reading:
    """One of the sources: whole topics, and a stream with its checkpoint."""

    def __init__(self, spark: SparkSession, source: str, cluster: Cluster, topic: str, checkpoint: Path) -> None:
        self._spark = spark
        self._source = source
        self._options = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.isolation.level": "read_committed",
        }
        self._stream = Batches(checkpoint)

    def read_on(self) -> list[tuple[int, int, str | None]]:
        """All that the stream has got, when it has read what is there now."""
        frame: DataFrame = self._spark.readStream.format(self._source).options(**self._options).load()
        self._stream.drain(frame)
        return _shown(self._stream.everything)

    def whole(self) -> list[tuple[int, int, str | None]]:
        frame: DataFrame = self._spark.read.format(self._source).options(**self._options).load()
        return _shown(rows(frame))


def _shown(found: Sequence[Row]) -> list[tuple[int, int, str | None]]:
    return sorted((row.partition, row.offset, row.value) for row in found)


def committed(cluster: Cluster, partitions: Sequence[Partition]) -> list[tuple[int, int, str | None]]:
    """What librdkafka reads."""
    found = read_all(cluster.bootstrap, partitions, "read_committed")
    return sorted((number, offset, value.decode()) for (_, number), some in found.items() for offset, value in some)


@pytest.mark.parametrize("source", ["sordini", "kafka"])
def test_what_is_committed_is_read_once_and_nothing_else(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, source: str
) -> None:
    topic = f"under-kills-{source}"
    partitions = cluster.create(topic, ASSIGNMENT, SAFE)
    cluster.wait_until_known(partitions)
    reading = Reading(spark, source, cluster, topic, tmp_path / "checkpoint")
    history = History()
    with Transactor(cluster.bootstrap, partitions, history, topic) as transactor:
        for broker in BROKERS:
            wanted = transactor.settled + TRANSACTIONS
            cluster.wait(lambda wanted=wanted: transactor.settled >= wanted, f"{wanted} transactions have ended")
            cluster.kill(broker)
            cluster.wait_until_gone(broker)
            seen = reading.read_on()
            cluster.restart(broker)
            cluster.wait_for_full_isr(partitions)
            assert set(seen) <= set(committed(cluster, partitions)), "nothing is shown that is not committed later"
    before = committed(cluster, partitions)
    open_one = _transaction(cluster, f"{topic}-open", partitions)
    _transaction(cluster, f"{topic}-behind", partitions).commit_transaction(PATIENCE_S)
    assert committed(cluster, partitions) == before, "the open transaction hides what is behind it"
    assert reading.read_on() == before
    assert reading.whole() == before
    assert broken_transactions(history, read_all(cluster.bootstrap, partitions, "read_committed")) == []
    open_one.commit_transaction(PATIENCE_S)
    after = [(number, f"{topic}-{name}-{number}") for _, number in partitions for name in ("behind", "open")]
    found = reading.read_on()
    assert sorted((number, value) for number, _, value in set(found) - set(before)) == sorted(after)
    assert found == reading.whole() == committed(cluster, partitions)
    assert len(found) == len(set(found)) > len(before) > TRANSACTIONS


def _transaction(cluster: Cluster, name: str, partitions: Sequence[Partition]) -> Producer:
    """A producer with an open transaction of one record for each partition, all of them acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for topic, number in partitions:
        producer.produce(topic, f"{name}-{number}".encode(), partition=number)
    assert producer.flush(PATIENCE_S) == 0
    return producer
