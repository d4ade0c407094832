"""`sordini groups lag` beside `kafka-consumer-groups.sh --describe` of Apache Kafka 4.4, on its brokers and on ours.

Both count offsets up to the high watermark, so the lags are the same on ordinary, compacted and transactional topics;
the oldest unread record is ours alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.test_java_groups import rows
from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_jars
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.tools import JavaTools
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.process.test_cli import run_here

pytestmark = pytest.mark.slow
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUP = "readers"
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 100,
    "log.retention.check.interval.ms": 100,
    "offsets.topic.num.partitions": 1,
}
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
STAMPED = {"message.timestamp.type": "LogAppendTime"}
KEYS, ROUNDS = 3, 40
START_MS = int(time.time() * 1_000) - 60_000
"""The time of the first record; later ones are ten seconds apart, so that each has its own."""
PATIENCE_S = 60.0


class Side(NamedTuple):
    """A broker with the topics, what its group has committed, and the offsets that compaction left."""

    broker: BrokerProcess
    committed: dict[str, int]
    kept: list[int]


@pytest.fixture(scope="module", params=["sordini", "apache-kafka"])
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    kafka_jars(NEWEST_APACHE_KAFKA)
    directory = tmp_path_factory.mktemp("lag")
    kind = SordiniProcess if request.param == "sordini" else KRaftProcess
    with kind(directory, SETTINGS) as broker:
        kept = fill(broker.bootstrap)
        committed = {"ordinary": 2, "compacted": KEYS, "transactional": 4, "stamped": 0}
        commit(broker.bootstrap, committed)
        yield Side(broker, committed, kept)


@pytest.fixture(scope="module")
def tools() -> Iterator[JavaTools]:
    with JavaTools(NEWEST_APACHE_KAFKA) as made:
        yield made


def fill(bootstrap: str) -> list[int]:
    """Topics of each kind; the offsets that are left in the compacted one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("ordinary", 1, 1),
        NewTopic("compacted", 1, 1, config=COMPACTED),
        NewTopic("transactional", 1, 1),
        NewTopic("stamped", 1, 1, config=STAMPED),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce("ordinary", str(number), timestamp=START_MS + 10_000 * number)
        producer.produce("stamped", str(number))
    assert producer.flush(30) == 0
    transactions = Producer({"bootstrap.servers": bootstrap, "transactional.id": "lag"})
    transactions.init_transactions()
    for is_committed in (True, False):
        transactions.begin_transaction()
        for number in range(3):
            transactions.produce("transactional", str(number))
        assert transactions.flush(30) == 0  # An abort drops what was not sent.
        if is_committed:
            transactions.commit_transaction()  # Offsets 0 to 2, and a marker.
        else:
            transactions.abort_transaction()  # 4 to 6, and a marker.
    return compact(bootstrap, producer)


def compact(bootstrap: str, producer: Producer) -> list[int]:
    """Write a few keys again and again until the cleaner has removed the records behind the committed offset."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for number in range(KEYS * ROUNDS):
            producer.produce("compacted", str(number), key=str(number % KEYS))
            if number % KEYS == KEYS - 1:
                assert producer.flush(30) == 0
        kept = read_all(bootstrap, "compacted")
        if min(kept) > 2 * KEYS:
            return kept
        assert time.monotonic() < deadline, f"not compacted: {kept[:20]}"


def read_all(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        partition = TopicPartition(topic, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        while not found or found[-1] < end - 1:
            record = consumer.poll(5)
            assert record is not None
            assert record.error() is None, record.error()
            offset = record.offset()
            assert offset is not None
            found.append(offset)
    finally:
        consumer.close()
    return found


def commit(bootstrap: str, offsets: dict[str, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        consumer.commit(
            offsets=[TopicPartition(*row) for row in ((t, 0, o) for t, o in offsets.items())], asynchronous=False
        )
    finally:
        consumer.close()


def ours(side: Side, *words: str) -> dict[str, Any]:
    (group,) = json.loads(run_here(side.broker.bootstrap, "groups", "lag", GROUP, "--json", *words).stdout)
    return {row["topic"]: row for row in group["partitions"]}


def test_the_lag_in_records_is_that_of_apache_kafkas_tool(side: Side, tools: JavaTools) -> None:
    printed = tools(COMMAND, "--bootstrap-server", side.broker.bootstrap, "--describe", "--group", GROUP)
    theirs = {
        row["TOPIC"]: (int(row["CURRENT-OFFSET"]), int(row["LOG-END-OFFSET"]), int(row["LAG"])) for row in rows(printed)
    }
    found = {topic: (row["committed_offset"], row["end_offset"], row["lag"]) for topic, row in ours(side).items()}
    assert found == theirs
    assert found.keys() == side.committed.keys()


def test_the_oldest_unread_record_is_the_next_that_exists_for_a_reader(side: Side) -> None:
    found = ours(side)
    unread = {topic: row["oldest_unread"] for topic, row in found.items()}
    assert (unread["ordinary"]["offset"], unread["ordinary"]["timestamp_ms"]) == (2, START_MS + 20_000)
    next_kept = min(offset for offset in read_all(side.broker.bootstrap, "compacted") if offset >= KEYS)
    assert unread["compacted"]["offset"] == next_kept > KEYS
    assert unread["transactional"] is None, "aborted records and markers are left"
    assert found["transactional"]["condition"] == "caught up"
    assert ours(side, "--read-uncommitted")["transactional"]["oldest_unread"]["offset"] == 4
    assert unread["stamped"]["timestamp_type"] == "LogAppendTime"


def test_the_time_of_an_append_is_known_by_our_brokers_and_with_log_append_time_everywhere(side: Side) -> None:
    found = ours(side)
    stamped, ordinary = found["stamped"]["oldest_unread"], found["ordinary"]["oldest_unread"]
    # By two clocks of one machine, of which one is read a little later.
    assert abs(stamped["appended_at_least_s_ago"] - stamped["own_age_s"]) < 1
    assert (ordinary["appended_at_least_s_ago"] is not None) == isinstance(side.broker, SordiniProcess)
    text = run_here(side.broker.bootstrap, "groups", "lag", GROUP).stdout
    assert "4 partitions" not in text
    assert "1 partition caught up." in text
