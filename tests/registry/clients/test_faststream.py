"""An application of FastStream whose records have a schema in the registry of the test kit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from faststream.kafka import KafkaBroker, KafkaMessage

from sordini.testing import Kafka, make_kafka

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
TOTAL = '{"type": "record", "name": "Total", "fields": [{"name": "sum", "type": "long"}]}'


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(registry=True, topics=["orders", "totals"]) as kafka:
        yield kafka


async def test_a_subscriber_decodes_and_publishes_by_registered_schemas(
    kafka: Kafka, client: SchemaRegistryClient
) -> None:
    decode, order, total = AvroDeserializer(client), AvroSerializer(client, ORDER), AvroSerializer(client, TOTAL)
    broker = KafkaBroker(kafka.bootstrap_servers)
    received: asyncio.Queue[Any] = asyncio.Queue()

    async def decoded(message: KafkaMessage) -> Any:
        return await asyncio.to_thread(decode, message.body, None)

    async def publish(topic: str, encode: AvroSerializer, value: dict[str, int]) -> None:
        context = SerializationContext(topic, MessageField.VALUE)
        await broker.publish(await asyncio.to_thread(encode, value, context), topic)

    @broker.subscriber("orders", auto_offset_reset="earliest", decoder=decoded)
    async def add(value: dict[str, int]) -> None:
        await publish("totals", total, {"sum": value["id"] + 1})

    @broker.subscriber("totals", auto_offset_reset="earliest", decoder=decoded)
    async def receive(value: dict[str, int]) -> None:
        received.put_nowait(value)

    async with broker:
        await broker.start()
        await publish("orders", order, {"id": 7})
        assert await asyncio.wait_for(received.get(), 30) == {"sum": 8}
    assert client.get_subjects() == ["orders-value", "totals-value"]
