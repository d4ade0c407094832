"""Readings and writings that outlive their leader, on three brokers of ours; and transactions, on an Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from sordini.pipeline.source.client import LATEST, Client, NoProgress, OffsetLost
from sordini.pipeline.source.client.reading import Range, Reading
from sordini.protocol.types import TopicPartition
from tests.outside.processes import SordiniProcess
from tests.pipeline.sent import KEEP, fill
from tests.pipeline.test_client import decoded, settings
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

PATIENCE_S = 90


@pytest.fixture(scope="module")
def trio(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SordiniProcess]]:
    """Three brokers in processes of their own, each to be killed without the others."""
    chroot = uuid4().hex
    with ExitStack() as stack:
        brokers = []
        for number in range(3):
            overrides = {
                "broker.id": number,
                "zookeeper.connect": f"{zookeeper}/{chroot}",
                "zookeeper.session.timeout.ms": 2_000,
                "offsets.topic.replication.factor": 1,
            }
            broker = SordiniProcess(tmp_path_factory.mktemp(f"broker-{number}"), overrides)
            brokers.append(stack.enter_context(broker))
        yield brokers


@pytest.mark.parametrize("round_number", range(2))
def test_a_reading_goes_on_at_the_next_leader_when_its_own_is_killed(
    trio: list[SordiniProcess], round_number: int
) -> None:
    all_clients = ",".join(broker.bootstrap for broker in trio)
    topic = Place(all_clients, 3).make_topic(configs=KEEP | {"min.insync.replicas": "2"})
    sent = fill(all_clients, topic, 3_000, partitions=1)
    partition = TopicPartition(topic, 0)
    with Client(settings(all_clients, max_partition_fetch_bytes=10_000)) as client:
        fetches = client.read(partition, 0, 3_000)
        found = [next(fetches), next(fetches)]
        address, epoch = client._topics.leader(partition)
        (leader,) = (broker for broker in trio if broker.port == address.port)
        leader.kill()
        found += fetches
        assert decoded(found, partition, 0, 3_000) == sent
        assert client._topics.leader(partition)[0] != address
        assert client._topics.leader(partition)[1] > epoch
    leader.start()


def test_a_batch_is_written_once_though_its_leader_is_killed_in_the_middle(
    trio: list[SordiniProcess], spark: SparkSession
) -> None:
    all_clients = ",".join(broker.bootstrap for broker in trio)
    topic = Place(all_clients, 3).make_topic(configs={"min.insync.replicas": "2"})
    partition = TopicPartition(topic, 0)
    count = 400_000
    frame = spark.range(0, count, 1, 1).selectExpr("concat(id, repeat('.', 90)) as value")
    writer = frame.write.format("sordini").mode("append").option("kafka.bootstrap.servers", all_clients)
    with Client(settings(all_clients)) as client, ThreadPoolExecutor(1) as pool:
        address, _ = client._topics.leader(partition)
        (leader,) = (broker for broker in trio if broker.port == address.port)

        def kill_in_the_middle() -> int:
            """How many records the leader had."""
            deadline = monotonic() + PATIENCE_S
            while not (written := client.offsets({partition: LATEST})[partition]):
                assert monotonic() < deadline, "nothing is written"
            leader.kill()
            return written

        killing = pool.submit(kill_in_the_middle)
        writer.option("topic", topic).save()
        assert killing.result() < count
    leader.start()
    reader = spark.read.format("sordini").option("kafka.bootstrap.servers", all_clients)
    numbers = reader.option("subscribe", topic).load().selectExpr("cast(split(value, '[.]')[0] as int) as number")
    total, different = numbers.selectExpr("count(number)", "count(distinct number)").first() or (0, 0)
    assert (total, different) == (count, count)


def transact(producer: Producer, topic: str, value: str, *, is_committed: bool) -> None:
    producer.begin_transaction()
    for number in range(50):
        producer.produce(topic, f"{value}-{number}".encode(), partition=0)
    producer.flush(30)
    producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)


def test_a_committed_reading_has_no_aborted_record_and_stops_before_an_open_transaction(apache: str) -> None:
    topic = Place(apache).make_topic()
    partition = TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": apache, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    for turn in range(6):
        transact(producer, topic, f"{turn}", is_committed=turn % 3 != 1)
    with Client(settings(apache, max_partition_fetch_bytes=2_000)) as client:
        end = client.offsets({partition: LATEST}, read_committed=True)[partition]
        assert end == 6 * 51
        committed = decoded(client.read(partition, 0, end, read_committed=True), partition, 0, end, read_committed=True)
        assert [row.value for row in committed] == [f"{turn}-{n}" for turn in (0, 2, 3, 5) for n in range(50)]
        assert len(decoded(client.read(partition, 0, end), partition, 0, end)) == 300
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    with Client(settings(apache, default_api_timeout_ms=2_000)) as client:
        assert client.offsets({partition: LATEST}) == {partition: end + 1}
        assert client.offsets({partition: LATEST}, read_committed=True) == {partition: end}
        with pytest.raises(NoProgress, match=f"an open transaction holds back the records from offset {end}"):
            list(client.read(partition, end, end + 1, read_committed=True))
    producer.abort_transaction(30)


def test_a_leader_without_the_epoch_of_what_was_read_says_so(place: Place) -> None:
    topic = place.make_topic(configs=KEEP)
    fill(place.bootstrap, topic, 100, partitions=1)
    with Client(settings(place.bootstrap)) as client:
        reading = Reading(client._pool, client._topics, Range(TopicPartition(topic, 0), 50, 100, False, ""))
        reading._last_epoch = 7  # As if the records before 50 had come from a leader that no other had followed.
        with pytest.raises(OffsetLost, match="an unclean election truncated the log"):
            list(reading.fetches())
