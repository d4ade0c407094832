"""Clients go to the leader that a refusal names (KIP-951).

librdkafka logs that it has taken the leader from a response. Java's producer is answered no Metadata request meanwhile.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sordini.testing import Kafka, make_kafka
from tests.outside.java import SHORT_LIVED
from tests.outside.needs import need_java, tool_jars
from tests.outside.versions import NEWEST_APACHE_KAFKA

SECONDS_MAX = 60


class Taken(logging.Handler):
    """librdkafka's log of leaders that it took from responses to Produce and Fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.logger = logging.getLogger(f"librdkafka-{id(self)}")
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line.startswith("METADATAUPDATE") and "updated with leader" in line:
            self.lines.append(line)

    @property
    def leaders(self) -> list[str]:
        return [line.partition("updated with leader ")[2].split()[0] for line in self.lines]


@pytest.fixture
def pair() -> Iterator[Kafka]:
    with make_kafka(2) as made:
        yield made


def led_by_the_first(pair: Kafka) -> str:
    topic = pair.topic(replicas=2)
    pair.move_leader(topic, 0, to=1)
    return topic


def settings(pair: Kafka) -> dict[str, object]:
    """Its metadata is not read again but for a cause."""
    quiet = {"topic.metadata.refresh.interval.ms": -1, "metadata.max.age.ms": 900_000, "debug": "metadata"}
    return {"bootstrap.servers": pair.bootstrap_servers, **quiet}


def produce(producer: Producer, topic: str, value: str) -> None:
    failures: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == [None]


def test_librdkafkas_producer_goes_to_the_leader_that_is_named(pair: Kafka) -> None:
    topic, taken = led_by_the_first(pair), Taken()
    producer = Producer({**settings(pair), "acks": "all"}, logger=taken.logger)
    produce(producer, topic, "one")
    assert "2" not in taken.leaders
    pair.move_leader(topic, 0, to=2)
    produce(producer, topic, "two")
    assert taken.leaders[-1:] == ["2"]
    pair.assert_produced(topic, ["one", "two"])


def test_librdkafkas_consumer_goes_to_the_leader_that_is_named(pair: Kafka) -> None:
    topic, taken = led_by_the_first(pair), Taken()
    group = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings(pair), **group}, logger=taken.logger)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        pair.produce(topic, "one")
        assert value(consumer) == b"one"
        assert "2" not in taken.leaders
        pair.move_leader(topic, 0, to=2)
        pair.produce(topic, "two")
        assert value(consumer) == b"two"
        assert taken.leaders[-1:] == ["2"]
    finally:
        consumer.close()


def value(consumer: Consumer) -> bytes:
    """Of the next record."""
    for _ in range(10 * SECONDS_MAX):
        record = consumer.poll(0.1)
        if record is not None and record.error() is None:
            found: bytes = record.value()
            return found
    raise AssertionError(f"no record within {SECONDS_MAX} s")


def test_javas_producer_goes_to_the_leader_that_is_named(pair: Kafka) -> None:
    topic = led_by_the_first(pair)
    words = ["--bootstrap-server", pair.bootstrap_servers, "--topic", topic, "--sync", "--request-required-acks", "all"]
    jars = f"{tool_jars(NEWEST_APACHE_KAFKA)}/*"
    command = [need_java(), *SHORT_LIVED, "-cp", jars, "org.apache.kafka.tools.ConsoleProducer", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as producer:
        assert producer.stdin is not None
        try:
            producer.stdin.write(b"one\n")
            producer.stdin.flush()
            pair.wait_for(lambda: len(pair.records(topic)) == 1, SECONDS_MAX)
            # Sent to the broker that refuses: the connection to the other one is not there yet.
            with pair.on("METADATA").drop_answer():
                pair.move_leader(topic, 0, to=2)
                producer.stdin.write(b"two\n")
                producer.stdin.flush()
                pair.wait_for(lambda: len(pair.records(topic)) == 2, SECONDS_MAX)
        finally:
            producer.kill()
    pair.assert_produced(topic, ["one", "two"])
