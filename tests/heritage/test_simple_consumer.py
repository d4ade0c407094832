"""SimpleConsumer: one broker, every request with its offset."""

from __future__ import annotations

import pytest

from examples.heritage.config import ProducerConfig
from examples.heritage.errors import (
    BrokerUnavailable,
    ConfigError,
    MessageSizeTooLarge,
    OffsetOutOfRange,
    RequestRefused,
)
from examples.heritage.partitions import ProducerData
from examples.heritage.producer import Producer
from examples.heritage.simple_consumer import EARLIEST_TIME, LATEST_TIME, FetchRequest, SimpleConsumer
from sordini.client.addresses import Address
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition
from sordini.testing import Kafka


def consumer_of(kafka: Kafka, topic: str, partition: int = 0, **settings: int) -> SimpleConsumer:
    """A consumer before the leader of a partition."""
    return SimpleConsumer(*address_of(kafka, kafka.leader(topic, partition)), **settings)


def address_of(kafka: Kafka, broker: int) -> Address:
    host, _, port = kafka.bootstrap_servers.split(",")[broker - 1].partition(":")
    return Address(host, int(port))


def values(messages: list[Record]) -> list[bytes | None]:
    return [message.value for message in messages]


def test_messages_are_fetched_from_an_offset_on_which_the_caller_keeps(kafka: Kafka) -> None:
    orders = kafka.topic()
    for number in range(4):
        kafka.produce(orders, f"order {number}", key=f"key {number}")
    consumer = consumer_of(kafka, orders)
    found = consumer.fetch(FetchRequest(orders, 0, 1))
    assert [(one.offset, one.key, one.value) for one in found] == [
        (number, f"key {number}".encode(), f"order {number}".encode()) for number in (1, 2, 3)
    ]
    assert consumer.fetch(FetchRequest(orders, 0, 4)) == []
    assert values(consumer.fetch(FetchRequest(orders, 0, 3))) == [b"order 3"]
    consumer.close()


def test_a_multifetch_is_one_request_with_a_set_for_each_partition_in_their_order(kafka: Kafka) -> None:
    orders = kafka.topic(partitions=3, replicas=1)
    led = [number for number in range(3) if kafka.leader(orders, number) == kafka.leader(orders, 0)]
    for number in led:
        kafka.produce(orders, f"of {number}", partition=number)
    consumer = consumer_of(kafka, orders)
    kafka.forget_requests()
    wanted = [FetchRequest(orders, number, 0) for number in reversed(led)]
    sets = consumer.multifetch([*wanted, FetchRequest("no-such-topic", 0, 0)])
    assert [one.partition for one in sets] == [(orders, number) for number in reversed(led)] + [("no-such-topic", 0)]
    assert [values(list(one.messages())) for one in sets[:-1]] == [[f"of {n}".encode()] for n in reversed(led)]
    with pytest.raises(RequestRefused, match="no-such-topic-0 from offset 0 on: UNKNOWN_TOPIC_OR_PARTITION"):
        list(sets[-1].messages())
    assert len(kafka.requests("Fetch")) == 1
    with pytest.raises(ConfigError, match="names each partition once"):
        consumer.multifetch([FetchRequest(orders, 0, 0), FetchRequest(orders, 0, 5)])
    consumer.close()


def test_a_message_that_is_cut_off_at_the_end_is_dropped(kafka: Kafka) -> None:
    orders = kafka.topic()
    for letter in "abc":
        kafka.produce(orders, letter * 1_000)
    consumer = consumer_of(kafka, orders)
    kafka.forget_requests()
    assert values(consumer.fetch(FetchRequest(orders, 0, 0, max_size=2_500))) == [b"a" * 1_000, b"b" * 1_000]
    assert len(kafka.requests("Fetch")) == 1
    consumer.close()


def test_from_an_offset_inside_a_compressed_set_what_was_before_it_is_left_out(kafka: Kafka) -> None:
    orders = kafka.topic()
    properties = {"broker.list": kafka.bootstrap_servers, "compression.codec": "gzip", "request.required.acks": -1}
    producer = Producer(ProducerConfig.of(properties))
    producer.send(ProducerData(orders, None, [b"%d" % number for number in range(5)]))
    producer.close()
    consumer = consumer_of(kafka, orders)
    assert [(one.offset, one.value) for one in consumer.fetch(FetchRequest(orders, 0, 3))] == [(3, b"3"), (4, b"4")]
    consumer.close()


def test_the_buffer_doubles_until_one_message_fits(kafka: Kafka) -> None:
    orders = kafka.topic()
    kafka.produce(orders, "x" * 10_000)
    consumer = consumer_of(kafka, orders)
    kafka.forget_requests()
    assert values(consumer.fetch(FetchRequest(orders, 0, 0, max_size=1_500))) == [b"x" * 10_000]
    sizes = [one.body.topics[0].partitions[0].partition_max_bytes for one in kafka.requests("Fetch")]
    assert sizes == [1_500, 3_000, 6_000, 12_000]
    consumer.close()


def test_the_buffer_doubles_up_to_its_limit_only(kafka: Kafka) -> None:
    orders = kafka.topic()
    kafka.produce(orders, "x" * 10_000)
    consumer = consumer_of(kafka, orders, buffer_size=9_000)
    with pytest.raises(MessageSizeTooLarge, match="a message at offset 0 that is larger than the largest buffer, 9000"):
        consumer.fetch(FetchRequest(orders, 0, 0, max_size=1_500))
    consumer.close()


def test_an_offset_out_of_range_goes_to_the_caller(kafka: Kafka) -> None:
    orders = kafka.topic()
    consumer = consumer_of(kafka, orders)
    with pytest.raises(OffsetOutOfRange, match="from offset 7 on: OFFSET_OUT_OF_RANGE"):
        consumer.fetch(FetchRequest(orders, 0, 7))
    consumer.close()


def test_offsets_before_a_time_are_where_segments_begin_and_the_end_newest_first(kafka: Kafka) -> None:
    orders = kafka.topic(config={"segment.bytes": 1_024})
    for number in range(8):
        kafka.produce(orders, f"{number}" * 400, timestamp_ms=1_000 * number)
    consumer = consumer_of(kafka, orders)
    offsets = consumer.offsets_before(orders, 0, LATEST_TIME, 100)
    assert offsets[0] == 8
    assert offsets[-1] == 0
    assert len(offsets) > 3
    assert offsets == sorted(offsets, reverse=True)
    assert consumer.offsets_before(orders, 0, LATEST_TIME, 2) == offsets[:2]
    assert consumer.offsets_before(orders, 0, EARLIEST_TIME, 100) == [0]
    with pytest.raises(RequestRefused, match="offsets of no-such-topic-0: UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.offsets_before("no-such-topic", 0, LATEST_TIME, 1)
    consumer.close()


def test_offsets_are_committed_and_fetched_at_the_coordinator_which_any_broker_names(kafka: Kafka) -> None:
    orders = kafka.topic(partitions=2)
    consumers = [SimpleConsumer(*address_of(kafka, broker)) for broker in (1, 2)]
    consumers[0].commit_offsets("reports", {TopicPartition(orders, 0): 3, TopicPartition(orders, 1): 5})
    assert kafka.committed("reports") == {(orders, 0): 3, (orders, 1): 5}
    for consumer in consumers:
        assert consumer.fetch_offsets("reports") == {TopicPartition(orders, 0): 3, TopicPartition(orders, 1): 5}
        assert consumer.fetch_offsets("nothing-committed") == {}
        consumer.close()


def test_while_the_coordinator_loads_or_moves_it_is_asked_again(kafka: Kafka) -> None:
    orders = kafka.topic()
    consumer = SimpleConsumer(*address_of(kafka, 1))
    kafka.forget_requests()
    with kafka.on("OffsetCommit", times=1).fail("COORDINATOR_LOAD_IN_PROGRESS"):
        consumer.commit_offsets("loading", {TopicPartition(orders, 0): 3})
    assert kafka.committed("loading") == {(orders, 0): 3}
    with kafka.on("OffsetFetch", times=1).fail("NOT_COORDINATOR"):
        assert consumer.fetch_offsets("loading") == {TopicPartition(orders, 0): 3}
    with (
        kafka.on("OffsetCommit").fail("GROUP_AUTHORIZATION_FAILED") as rule,
        pytest.raises(RequestRefused, match="of group loading: GROUP_AUTHORIZATION_FAILED"),
    ):
        consumer.commit_offsets("loading", {TopicPartition(orders, 0): 4})
    assert rule.used == 1, "an error that does not pass is not repeated"
    consumer.close()


def test_a_broker_that_is_down_is_a_clear_error_and_is_connected_again_when_it_is_back(kafka: Kafka) -> None:
    orders = kafka.topic(replicas=1)
    kafka.produce(orders, "one")
    leader = kafka.leader(orders)
    consumer = consumer_of(kafka, orders)
    assert values(consumer.fetch(FetchRequest(orders, 0, 0))) == [b"one"]
    kafka.brokers[leader - 1].kill()
    with pytest.raises(BrokerUnavailable, match=f"broker at {address_of(kafka, leader)}: "):
        consumer.fetch(FetchRequest(orders, 0, 0))
    kafka.brokers[leader - 1].start()
    kafka.wait_for(lambda: kafka.leader(orders) == leader)
    assert values(consumer.fetch(FetchRequest(orders, 0, 0))) == [b"one"]
    consumer.close()
