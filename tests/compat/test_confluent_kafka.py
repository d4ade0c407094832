"""confluent-kafka, which is librdkafka: the C client behind many other languages' clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.compat.sent import CODECS, START_MS, Sent, records
from tests.outside.processes import BrokerProcess

MakeTopic = Callable[..., str]


@contextmanager
def consuming(bootstrap: str, *partitions: TopicPartition, **settings: Any) -> Iterator[Consumer]:
    # The library wants a group's name although partitions assigned by hand use no group.
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            **settings,
        }
    )
    try:
        # One that is assigned partitions before it knows their leaders looks for these half a second later.
        consumer.list_topics(timeout=15)
        consumer.assign(list(partitions))
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[Message]:
    got: list[Message] = []
    while len(got) < count:
        message = consumer.poll(15)
        assert message is not None, f"only {len(got)} of {count} records arrived"
        assert message.error() is None, message.error()
        got.append(message)
    return got


def produce(bootstrap: str, topic: str, sent: list[Sent], **settings: Any) -> list[int]:
    """Send to partition 0 and return the offsets that were acknowledged, in order."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **settings})
    for record in sent:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            timestamp=record.timestamp_ms,
            headers=record.headers,
            on_delivery=delivered,
        )
    assert producer.flush(20) == 0
    if "stats_cb" in settings:
        producer.poll(0.2)  # For the statistics of the moment after the last record.
    return offsets


def as_sent(message: Message) -> Sent:
    return Sent(message.key(), message.value(), message.timestamp()[1], message.headers() or [])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_consumed_unchanged(
    bootstrap: str, make_topic: MakeTopic, codec: str, *, idempotent: bool
) -> None:
    topic, sent = make_topic(), records(300)
    settings = {"compression.codec": codec, "enable.idempotence": idempotent}
    assert produce(bootstrap, topic, sent, **settings) == list(range(300))
    with consuming(bootstrap, TopicPartition(topic, 0, OFFSET_BEGINNING)) as consumer:
        got = read(consumer, 300)
    assert [message.offset() for message in got] == list(range(300))
    assert [as_sent(message) for message in got] == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_is_stored(bootstrap: str, make_topic: MakeTopic, acks: str) -> None:
    topic, sent = make_topic(), records(20)
    produce(bootstrap, topic, sent, acks=acks)
    with consuming(bootstrap, TopicPartition(topic, 0, OFFSET_BEGINNING)) as consumer:
        assert [as_sent(message) for message in read(consumer, 20)] == sent


def test_compressed_batches_travel_compressed_both_ways(bootstrap: str, make_topic: MakeTopic) -> None:
    # librdkafka silently stops compressing when Produce is not advertised from version 0.
    topic, body = make_topic(), b"a" * 50_000
    sent_bytes = TrafficCounter("tx_bytes")
    settings = {"compression.codec": "gzip", "statistics.interval.ms": 20, "stats_cb": sent_bytes}
    produce(bootstrap, topic, [Sent(None, body, START_MS, [])], **settings)
    received_bytes = TrafficCounter("rx_bytes")
    watched = {"statistics.interval.ms": 20, "stats_cb": received_bytes}
    with consuming(bootstrap, TopicPartition(topic, 0, 0), **watched) as consumer:
        assert read(consumer, 1)[0].value() == body
        consumer.poll(0.2)  # As above.
    assert 0 < sent_bytes.largest < len(body) / 2
    assert 0 < received_bytes.largest < len(body) / 2


class TrafficCounter:
    """Keeps the largest value of one number in librdkafka's statistics."""

    def __init__(self, field: str) -> None:
        self._field = field
        self.largest = 0

    def __call__(self, statistics: str) -> None:
        self.largest = max(self.largest, json.loads(statistics)[self._field])


def test_a_seek_and_offsets_by_time_are_exact(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, records(50), **{"compression.codec": "lz4"})
    with consuming(bootstrap, TopicPartition(topic, 0, 20)) as consumer:
        assert read(consumer, 1)[0].offset() == 20
        consumer.seek(TopicPartition(topic, 0, 33))
        assert read(consumer, 1)[0].offset() == 33
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=15) == (0, 50)
        asked = [TopicPartition(topic, 0, START_MS + 7_500)]
        assert consumer.offsets_for_times(asked, timeout=15)[0].offset == 8


def test_the_end_of_a_partition_is_reported(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, records(3))
    beginning = TopicPartition(topic, 0, OFFSET_BEGINNING)
    with consuming(bootstrap, beginning, **{"enable.partition.eof": True}) as consumer:
        read(consumer, 3)
        end = consumer.poll(15)
    assert end is not None
    error = end.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF


def test_an_offset_out_of_range_resets_as_the_consumer_asked(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, records(5))
    with consuming(bootstrap, TopicPartition(topic, 0, 99), **{"auto.offset.reset": "earliest"}) as consumer:
        assert read(consumer, 1)[0].offset() == 0


def test_topics_are_created_described_and_deleted(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, num_partitions=2, replication_factor=1, config={"max.message.bytes": "54321"})
    admin.create_topics([wanted])[topic].result(15)
    assert set(admin.list_topics(topic, timeout=15).topics[topic].partitions) == {0, 1}
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(15)
    assert entries["max.message.bytes"].value == "54321"
    assert not entries["max.message.bytes"].is_default
    assert entries["segment.bytes"].is_default
    admin.delete_topics([topic])[topic].result(15)


def test_the_cluster_names_itself_and_its_controller(bootstrap: str) -> None:
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=15)
    assert len(metadata.cluster_id) == 22
    assert metadata.controller_id in metadata.brokers


def test_a_client_works_on_after_the_broker_restarted(own_broker: BrokerProcess, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": own_broker.bootstrap, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
    )
    with consuming(own_broker.bootstrap, TopicPartition(topic, 0, 0)) as consumer:
        producer.produce(topic, b"before", partition=0)
        assert producer.flush(15) == 0
        own_broker.restart()
        producer.produce(topic, b"after", partition=0)
        assert producer.flush(30) == 0
        got: list[bytes | None] = []
        for _ in range(60):
            message = consumer.poll(0.5)
            # While the broker is stopped the consumer reports that; there may be no other error.
            if message is not None and message.error() is None:
                got.append(message.value())
            if len(got) == 2:
                break
    assert got == [b"before", b"after"]
