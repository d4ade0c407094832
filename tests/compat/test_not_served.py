"""A protocol that is switched off is refused in the way at which each of today's clients stops with a clear error.

Each wait here is far shorter than the client's own timeout, so that a client that keeps retrying fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.outside.processes import SordiniProcess
from tests.outside.tools import TOOLS, JavaTools

PATIENCE_S = 25
"""Of every client here its own timeout is longer, or none."""


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that has classic groups only."""
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka serves it")
    settings: dict[str, object] = {
        "group.coordinator.rebalance.protocols": "classic",
        "group.initial.rebalance.delay.ms": 0,
    }
    with SordiniProcess(tmp_path_factory.mktemp("classic-only"), settings) as broker:
        yield broker.bootstrap


def test_confluent_s_consumer_of_the_new_protocol_gets_an_error_at_its_first_poll(bootstrap: str, topic: str) -> None:
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
    tool: JavaTools, bootstrap: str, topic: str
) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--timeout-ms", "40000"]
    name = f"{TOOLS}.consumer.ConsoleConsumer"
    done = tool.run(name, *arguments, "--consumer-property", "group.protocol=consumer", seconds=35)
    assert "group.protocol=classic" in done.output + done.errors


def test_idempotent_producers_and_classic_members_are_served_beside(bootstrap: str, topic: str) -> None:
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
