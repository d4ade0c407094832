"""A slice of a real Apache Kafka's topic, packed, and loaded into the test kit's brokers: the same records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from sordini.cli.__main__ import main
from sordini.testing import make_kafka
from tests.support.confluent_admin import admin_of

Row = tuple[int, int, tuple[int, int], bytes | None, bytes | None, object]


@pytest.fixture
def apache_topic(apache_kafka: str) -> Iterator[str]:
    """A compacted topic of two partitions, with compressed batches, tombstones, headers and transactions."""
    topic = f"packed-{uuid4().hex[:8]}"
    admin = admin_of({"bootstrap.servers": apache_kafka})
    made = admin.create_topics([NewTopic(topic, 2, 1, config={"cleanup.policy": "compact"})])
    made[topic].result(30)
    plain = Producer({"bootstrap.servers": apache_kafka, "compression.type": "snappy", "linger.ms": 20})
    for number in range(200):
        value = None if number % 7 == 0 else b"value %d" % number
        headers = [("number", b"%d" % number), ("null", None)]
        plain.produce(
            topic, value, b"key %d" % (number % 11), partition=number % 2, timestamp=10**12 + number, headers=headers
        )
    assert plain.flush(30) == 0
    writer = Producer({"bootstrap.servers": apache_kafka, "transactional.id": topic})
    writer.init_transactions(30)
    for ends in ("abort", "commit", "abort"):
        writer.begin_transaction()
        writer.produce(topic, ends.encode(), b"key", partition=0)
        writer.flush(30)
        getattr(writer, f"{ends}_transaction")(30)
    yield topic
    admin.delete_topics([topic])[topic].result(30)


def rows(bootstrap: str, topic: str) -> list[Row]:
    """All that a consumer reads, up to the end of both partitions."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer, found, left = Consumer({**settings, "isolation.level": "read_committed"}), [], {0, 1}
    # One that is assigned partitions before it knows their leaders looks for these half a second later.
    consumer.list_topics(timeout=30)
    consumer.assign([TopicPartition(topic, number, 0) for number in left])
    while left:
        row = consumer.poll(30)
        assert row is not None
        if row.error():
            left.discard(row.partition())
        else:
            found.append((row.partition(), row.offset(), row.timestamp(), row.key(), row.value(), row.headers()))
    consumer.close()
    return sorted(found)


def test_a_slice_of_apache_kafka_is_the_same_in_the_kit(apache_kafka: str, apache_topic: str, tmp_path: Path) -> None:
    path = str(tmp_path / "apache.pack")
    words = ["topics", "pack", apache_topic, "--output", path, "--bootstrap", apache_kafka, "--json"]
    done = CliRunner().invoke(main, words, prog_name="sordini")
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    ends = {row["partition"]: row["end_offset"] for row in json.loads(done.stdout)["slices"]}
    assert ends == {0: 106, 1: 100}
    wanted = rows(apache_kafka, apache_topic)
    assert len(wanted) == 201
    with make_kafka() as kafka:
        assert kafka.load(path) == {(apache_topic, 0): 101, (apache_topic, 1): 100}
        assert rows(kafka.bootstrap_servers, apache_topic) == wanted
        assert kafka.end_offsets(apache_topic) == ends
