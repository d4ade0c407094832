"""What is not served yet is refused in the way at which each of today's clients stops with a clear error.

Each wait here is far shorter than the client's own timeout, so that a client that keeps retrying fails the test.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from tests.outside.tools import TOOLS, JavaTools

PATIENCE_S = 25
"""Of every client here its own timeout is longer, or none."""
BY_US = "Sordini does not serve transactions yet"


@pytest.fixture(autouse=True)
def _only_ours(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka serves both")


def an_id() -> str:
    return f"transactional-{uuid.uuid4().hex[:8]}"


def test_confluent_s_transactional_producer_fails_for_good_with_the_reason(bootstrap: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": an_id(), "log_level": 0, "transaction.timeout.ms": 60_000}
    )
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.init_transactions(PATIENCE_S)
    error = raised.value.args[0]
    assert error.fatal()
    assert not error.retriable()
    assert BY_US in error.str()


def test_kafka_python_s_transactional_producer_fails_before_its_own_timeout(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=an_id(), max_block_ms=PATIENCE_S * 1000)
    try:
        with pytest.raises(KafkaError, match="UnsupportedVersionError") as raised:
            producer.init_transactions()
        assert not isinstance(raised.value, KafkaTimeoutError)
    finally:
        producer.close(timeout=1)


async def test_aiokafka_s_transactional_producer_does_not_start(bootstrap: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=an_id())
    with pytest.raises(TransactionalIdAuthorizationFailed):
        async with asyncio.timeout(PATIENCE_S):
            await producer.start()
    await producer.stop()


def test_the_java_client_s_transactional_producer_fails_with_the_reason(
    tool: JavaTools, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    shape = ["--topic", make_topic(), "--num-records", "1", "--record-size", "10", "--throughput", "-1"]
    settings = ["--producer-props", f"bootstrap.servers={bootstrap}", "max.block.ms=50000"]
    name = f"{TOOLS}.ProducerPerformance"
    done = tool.run(
        name, *shape, *settings, "--transactional-id", an_id(), "--transaction-duration-ms", "1000", seconds=45
    )
    assert done.status != 0
    assert re.search(rf"Could not find a coordinator .* unexpected error: .*{BY_US}", done.output + done.errors)


def test_confluent_s_consumer_of_the_new_protocol_gets_an_error_at_its_first_poll(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "group.protocol": "consumer", "log_level": 0}
    )
    try:
        consumer.subscribe([topic])
        message: Any = consumer.poll(PATIENCE_S)
        assert message is not None, "it waits in silence"
        assert message.error().code() == confluent_kafka.KafkaError._FATAL
        assert "ConsumerGroupHeartbeat fatal error" in message.error().str()
    finally:
        consumer.close()


def test_the_java_client_s_consumer_of_the_new_protocol_fails_with_the_reason(
    tool: JavaTools, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--timeout-ms", "40000"]
    name = f"{TOOLS}.consumer.ConsoleConsumer"
    done = tool.run(name, *arguments, "--consumer-property", "group.protocol=consumer", seconds=35)
    assert "group.protocol=classic" in done.output + done.errors


def test_idempotent_producers_and_classic_members_are_served_beside(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(topic, b"kept")
    assert producer.flush(PATIENCE_S) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings | {"group.protocol": "classic"})
    try:
        consumer.subscribe([topic])
        message: Any = consumer.poll(PATIENCE_S)
        assert message.value() == b"kept"
    finally:
        consumer.close()
