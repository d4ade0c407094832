"""A single broker on a real ZooKeeper instead of its own file: the same topics, and Apache Kafka's own tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kazoo.client import KazooClient

from tests.outside.processes import SordiniProcess

Start = Callable[..., SordiniProcess]


@pytest.fixture
def chroot(zookeeper: str) -> str:
    return f"{zookeeper}/{uuid4().hex}"


def test_topics_made_by_clients_are_apache_kafkas_nodes_and_survive_a_restart(
    start_sordini: Start, chroot: str
) -> None:
    broker = start_sordini({"zookeeper.connect": chroot, "broker.id": 7, "zookeeper.session.timeout.ms": 4000})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(10):
        producer.send("orders", b"%d" % number)
    producer.flush()
    producer.close()
    broker.restart()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=2000)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.seek_to_beginning()
    assert [record.value for record in consumer] == [b"%d" % number for number in range(10)]
    consumer.close()
    client = KazooClient(hosts=chroot)
    client.start()
    try:
        topic = json.loads(client.get("/brokers/topics/orders")[0])
        state = json.loads(client.get("/brokers/topics/orders/partitions/0/state")[0])
        registered = json.loads(client.get("/brokers/ids/7")[0])
    finally:
        client.stop()
        client.close()
    assert topic["partitions"] == {"0": [7]}
    assert (state["leader"], state["isr"], state["version"]) == (7, [7], 1)
    assert registered["endpoints"] == [f"PLAINTEXT://{broker.bootstrap}"]
