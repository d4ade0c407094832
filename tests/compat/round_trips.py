"""Clients that read what they wrote, each with the settings of a secured listener. Most consumers are members of groups."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.outside.needs import need_program
from tests.outside.tools import JavaTools

VALUES = [b"small", b"x" * 100_000, *(f"record-{number}".encode() for number in range(200))]


def by_kafka_python(topic: str, settings: Mapping[str, Any]) -> None:
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value, partition=0)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", group_id=topic, **settings)
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


async def by_aiokafka(topic: str, settings: Mapping[str, Any]) -> None:
    async with AIOKafkaProducer(**settings) as producer:
        await asyncio.gather(*[await producer.send(topic, value, partition=0) for value in VALUES])
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
        assert [(await consumer.getone()).value for _ in VALUES] == VALUES


def by_librdkafka(topic: str, settings: Mapping[str, Any]) -> None:
    producer = Producer(dict(settings))
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < len(VALUES):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(message.value())
    consumer.close()
    assert found == VALUES


def by_kcat(topic: str, settings: Mapping[str, str]) -> None:
    """`settings` are librdkafka's."""
    program = need_program("kcat", "kcat")
    options = [word for pair in settings.items() for word in ("-X", "=".join(pair))]
    lines = "".join(f"line-{number}\n" for number in range(100))
    subprocess.run([program, *options, "-P", "-t", topic, "-p", "0"], input=lines, text=True, check=True, timeout=60)
    command = [program, *options, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == lines


def by_java_tools(topic: str, tool: JavaTools, bootstrap: str, properties: str) -> None:
    shape = ["--num-records", "5000", "--record-size", "200", "--throughput", "-1"]
    servers = ["--producer-props", f"bootstrap.servers={bootstrap}", "--producer.config", properties]
    assert "5000 records sent" in tool("ProducerPerformance", "--topic", topic, *shape, *servers)
    consumed = tool(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--messages", "5000"),
        *("--consumer.config", properties, "--hide-header"),
    )
    assert consumed.split(", ")[4] == "5000"
