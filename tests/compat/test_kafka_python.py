"""kafka-python 3: idempotent and acks=all by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.codec import has_snappy
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tests.compat.sent import CODECS, START_MS, Sent, records
from tests.outside.needs import need
from tests.outside.processes import BrokerProcess

MakeTopic = Callable[..., str]


def read(bootstrap: str, partition: TopicPartition, count: int, start: int = 0, **settings: Any) -> list[Any]:
    """The next `count` records of a partition from offset `start`; fewer when 15 s bring no more."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=15_000, **settings)
    with closing(consumer):
        consumer.assign([partition])
        consumer.seek(partition, start)
        return list(islice(consumer, count))


def as_sent(record: Any) -> Sent:
    return Sent(record.key, record.value, record.timestamp, [tuple(header) for header in record.headers])


@pytest.fixture
def producer(bootstrap: str) -> Iterator[KafkaProducer]:
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_consumed_unchanged(
    bootstrap: str, make_topic: MakeTopic, codec: str, *, idempotent: bool
) -> None:
    need(codec != "snappy" or has_snappy(), "snappy for kafka-python", "`pip install python-snappy`")
    topic, sent = make_topic(), records(300)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        linger_ms=20,
    )
    with closing(producer):
        futures = [
            producer.send(
                topic, record.value, record.key, record.headers, partition=0, timestamp_ms=record.timestamp_ms
            )
            for record in sent
        ]
        offsets = [future.get(timeout=15).offset for future in futures]
    assert offsets == list(range(300))
    got = read(bootstrap, TopicPartition(topic, 0), 300)
    assert [record.offset for record in got] == offsets
    assert [as_sent(record) for record in got] == sent


def test_acks_zero_and_one_are_stored_too(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for acks in (0, 1):
        producer = KafkaProducer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence=False)
        with closing(producer):
            producer.send(topic, b"acks-%d" % acks, partition=0)
            producer.flush(timeout=15)
    assert [record.value for record in read(bootstrap, TopicPartition(topic, 0), 2)] == [b"acks-0", b"acks-1"]


def test_an_unknown_topic_is_created_with_the_first_record(bootstrap: str, topic: str, producer: KafkaProducer) -> None:
    producer.send(topic, b"first").get(timeout=15)
    assert [record.value for record in read(bootstrap, TopicPartition(topic, 0), 1)] == [b"first"]


def test_keys_spread_over_partitions_and_keep_their_order(
    bootstrap: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    topic = make_topic(partitions=4)
    for number in range(200):
        producer.send(topic, b"%d" % number, key=b"key-%d" % (number % 10))
    producer.flush(timeout=15)
    partitions = [TopicPartition(topic, partition) for partition in range(4)]
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=15_000)) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        got = list(islice(consumer, 200))
    assert len({record.partition for record in got}) > 1
    for key in {record.key for record in got}:
        of_key = [record for record in got if record.key == key]
        assert len({record.partition for record in of_key}) == 1
        numbers = [int(record.value) for record in of_key]
        assert numbers == sorted(numbers)


def test_a_seek_into_a_batch_starts_at_exactly_that_record(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    # The long linger puts all of them into one compressed batch.
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=200, compression_type="gzip")
    with closing(producer):
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush(timeout=15)
    got = read(bootstrap, TopicPartition(topic, 0), 3, start=57)
    assert [(record.offset, record.value) for record in got] == [(57, b"57"), (58, b"58"), (59, b"59")]


def test_offsets_are_found_by_time_to_the_very_record(
    bootstrap: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    partition = TopicPartition(make_topic(), 0)
    for number in range(50):
        producer.send(partition.topic, b"%d" % number, partition=0, timestamp_ms=START_MS + 1_000 * number)
    producer.flush(timeout=15)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        for wanted_ms, offset in [(0, 0), (START_MS, 0), (START_MS + 20_001, 21), (START_MS + 49_000, 49)]:
            found = consumer.offsets_for_times({partition: wanted_ms})[partition]
            assert (found.offset, found.timestamp) == (offset, START_MS + 1_000 * offset)
        assert consumer.offsets_for_times({partition: START_MS + 49_001})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 50}


def test_a_consumer_waiting_at_the_end_gets_what_arrives(
    bootstrap: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    partition = TopicPartition(make_topic(), 0)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=500)) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        assert consumer.poll(timeout_ms=200) == {}
        producer.send(partition.topic, b"late", partition=0).get(timeout=15)
        got = consumer.poll(timeout_ms=15_000)
    assert [record.value for record in got[partition]] == [b"late"]


def test_reading_committed_records_shows_what_no_transaction_holds_back(
    bootstrap: str, make_topic: MakeTopic, producer: KafkaProducer
) -> None:
    topic = make_topic()
    producer.send(topic, b"plain", partition=0).get(timeout=15)
    got = read(bootstrap, TopicPartition(topic, 0), 1, isolation_level="read_committed")
    assert [record.value for record in got] == [b"plain"]


def test_topics_are_created_listed_described_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    shape = {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "1234567"}}
    admin.create_topics({topic: shape}, wait_for_metadata=True)
    assert topic in [entry["name"] if isinstance(entry, dict) else entry for entry in admin.list_topics()]
    (described,) = admin.describe_topics([topic])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({topic: shape})
    admin.delete_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_a_topics_own_configuration_is_described(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"retention.ms": "1234567", "compression.type": "lz4"})
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "1234567" in str(described)
    assert "lz4" in str(described)


def test_a_client_works_on_after_the_broker_restarted(own_broker: BrokerProcess, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=own_broker.bootstrap, retry_backoff_ms=20)
    consumer = KafkaConsumer(bootstrap_servers=own_broker.bootstrap, consumer_timeout_ms=15_000)
    with closing(producer), closing(consumer):
        producer.send(topic, b"before", partition=0).get(timeout=15)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        assert next(consumer).value == b"before"
        own_broker.restart()
        assert producer.send(topic, b"after", partition=0).get(timeout=30).offset == 1
        assert next(consumer).value == b"after"
