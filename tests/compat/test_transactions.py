"""Transactional producers of three client libraries: commit, abort, fencing, and what read_committed readers see.

All of them do the same things. A second producer of the same transactional id starts while the first one's transaction
is open: that is aborted, and the first producer ends with an error.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from confluent_kafka import KafkaException
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, ProducerFencedError

from tests.outside.tools import JavaTools

PATIENCE_S = 25
QUIET_MS = 200
"""How long a reader at the end waits for a record that should not come; a fetch there waits half of that."""


@pytest.fixture
def topics(make_topic: Callable[..., str], topic: str, bootstrap: str) -> tuple[str, str]:
    """Two topics of one partition."""
    first = make_topic()
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        producer.partitions_for(f"{first}-too")
    return first, f"{first}-too"


def an_id() -> str:
    return f"transactional-{uuid.uuid4().hex[:8]}"


def committed(bootstrap: str, topic: str, *, level: str = "read_committed") -> list[bytes]:
    """The records that a reader gets: up to what is the end for its isolation level, and nothing after that."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=level,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=QUIET_MS // 2,
    )
    partition, found = TopicPartition(topic, 0), list[bytes]()
    with closing(consumer):
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while True:
            is_at_end = consumer.position(partition) >= end
            records = consumer.poll(QUIET_MS).get(partition, [])
            found += [record.value for record in records]
            if is_at_end and not records:
                return found


def transactional(bootstrap: str, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def test_confluent_s_transactions_are_read_whole_or_not_at_all(bootstrap: str, topics: tuple[str, str]) -> None:
    one, two = topics
    producer = transactional(bootstrap, an_id())
    producer.begin_transaction()
    producer.produce(one, b"kept")
    producer.produce(two, b"kept")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(one, b"aborted")
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(one, b"open")
    producer.flush(PATIENCE_S)
    assert [committed(bootstrap, name) for name in topics] == [[b"kept"], [b"kept"]]
    assert committed(bootstrap, one, level="read_uncommitted") == [b"kept", b"aborted", b"open"]
    producer.commit_transaction(PATIENCE_S)
    assert committed(bootstrap, one) == [b"kept", b"open"]


def test_a_second_producer_of_confluent_s_fences_the_first(bootstrap: str, topics: tuple[str, str]) -> None:
    name = an_id()
    first = transactional(bootstrap, name)
    first.begin_transaction()
    first.produce(topics[0], b"fenced")
    first.flush(PATIENCE_S)
    second = transactional(bootstrap, name)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(PATIENCE_S)
    assert raised.value.args[0].fatal()
    assert raised.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    second.begin_transaction()
    second.produce(topics[0], b"second")
    second.commit_transaction(PATIENCE_S)
    assert committed(bootstrap, topics[0]) == [b"second"]


def test_kafka_python_s_transactions_are_read_whole_or_not_at_all(bootstrap: str, topics: tuple[str, str]) -> None:
    one, two = topics
    with closing(KafkaProducer(bootstrap_servers=bootstrap, transactional_id=an_id())) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(one, b"kept")
        producer.send(two, b"kept")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(one, b"aborted").get(PATIENCE_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(one, b"open").get(PATIENCE_S)
        assert [committed(bootstrap, name) for name in topics] == [[b"kept"], [b"kept"]]
        producer.commit_transaction()
    assert committed(bootstrap, one) == [b"kept", b"open"]


def test_a_second_producer_of_kafka_python_s_fences_the_first(bootstrap: str, topics: tuple[str, str]) -> None:
    name = an_id()
    first = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    second = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    try:
        first.init_transactions()
        first.begin_transaction()
        first.send(topics[0], b"fenced").get(PATIENCE_S)
        second.init_transactions()
        with pytest.raises(KafkaError) as raised:
            first.commit_transaction()
        assert isinstance(raised.value, ProducerFencedError)
        second.begin_transaction()
        second.send(topics[0], b"second")
        second.commit_transaction()
    finally:
        first.close(timeout=1)
        second.close(timeout=1)
    assert committed(bootstrap, topics[0]) == [b"second"]


async def test_aiokafka_s_transactions_are_read_whole_or_not_at_all(bootstrap: str, topics: tuple[str, str]) -> None:
    one, two = topics
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=an_id()) as producer:
        async with producer.transaction():
            await producer.send_and_wait(one, b"kept")
            await producer.send_and_wait(two, b"kept")
        await producer.begin_transaction()
        await producer.send_and_wait(one, b"aborted")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(one, b"open")
        assert [committed(bootstrap, name) for name in topics] == [[b"kept"], [b"kept"]]
        await producer.commit_transaction()
    assert committed(bootstrap, one) == [b"kept", b"open"]


async def test_a_second_producer_of_aiokafka_s_fences_the_first(bootstrap: str, topics: tuple[str, str]) -> None:
    name = an_id()
    first = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    await first.start()
    try:
        await first.begin_transaction()
        await first.send_and_wait(topics[0], b"fenced")
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as second:
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
            async with second.transaction():
                await second.send_and_wait(topics[0], b"second")
    finally:
        await first.stop()
    assert committed(bootstrap, topics[0]) == [b"second"]


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, topics: tuple[str, str]) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": an_id(), "transaction.timeout.ms": 1_000}
    producer = confluent_kafka.Producer(settings | {"log_level": 0, "delivery.timeout.ms": 1_000})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topics[0], b"late")
    producer.flush(PATIENCE_S)
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as plain:
        plain.send(topics[0], b"plain").get(PATIENCE_S)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    with closing(consumer):
        consumer.assign([TopicPartition(topics[0], 0)])
        assert next(iter(consumer)).value == b"plain"


def test_the_java_client_s_transactions_are_committed_one_after_the_other(
    tool: JavaTools, bootstrap: str, topics: tuple[str, str]
) -> None:
    shape = ["--topic", topics[0], "--num-records", "500", "--record-size", "10", "--throughput", "500"]
    settings = ["--producer-props", f"bootstrap.servers={bootstrap}"]
    printed = tool(
        "ProducerPerformance", *shape, *settings, "--transactional-id", an_id(), "--transaction-duration-ms", "100"
    )
    assert "500 records sent" in printed
    assert len(committed(bootstrap, topics[0])) == 500


def test_the_java_tool_lists_and_describes_transactions(
    tool: JavaTools, bootstrap: str, topics: tuple[str, str]
) -> None:
    name = an_id()
    producer = transactional(bootstrap, name)
    producer.begin_transaction()
    producer.produce(topics[0], b"open")
    producer.flush(PATIENCE_S)

    def transactions(*arguments: str) -> str:
        return tool("TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)

    [listed] = [line.split() for line in transactions("list").splitlines() if line.startswith(name)]
    assert listed[-1] == "Ongoing"
    described = transactions("describe", "--transactional-id", name).splitlines()
    [row] = [line.split() for line in described if name in line]
    assert f"{topics[0]}-0" in row
    assert "Ongoing" in row
    producers = transactions("describe-producers", "--topic", topics[0], "--partition", "0").splitlines()
    assert len(producers) == 2, "a head, and one producer"
    producer.commit_transaction(PATIENCE_S)
    [row] = [line.split() for line in transactions("list").splitlines() if line.startswith(name)]
    assert row[-1] == "CompleteCommit"
