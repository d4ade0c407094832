"""Confluent's own Java client of a registry, and records that it and its peer in Python exchange."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

from sordini.testing import Kafka
from tests.outside.java import SHORT_LIVED
from tests.outside.needs import need_java, need_registry_client

PROGRAM = Path(__file__).with_name("programs") / "RegistryProgram.java"
LOG4J = Path(__file__).resolve().parents[2] / "outside" / "log4j.properties"
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
EXPECTED = {
    "registered again": "true",
    "by id": ORDER,
    "compatible": "true",
    "not compatible": "false",
    "refused": "409 409",
    "latest": "2 true",
    "versions": "[1, 2]",
    "version of": "1",
    "subjects of id": "[java, of-python-value]",
    "unknown id": "404 40403",
    "unknown subject": "404 40401",
    "with metadata": "3",
    "reference": "[{name='Order', subject='java', version=1}]",
    "resolved": "Order",
    "level": "FULL FULL",
    "level of all": "BACKWARD",
    "mode": "READONLY READONLY",
    "read only": "422 42205",
    "mode of all": "READWRITE",
    "deleted": "[1]",
    "deleted for good": "[1]",
    "subjects": "[basket, java, of-python-value]",
    "record": '{"id": 8}',
}
CLIENT_SECONDS_MAX = 30


def run_program(*arguments: str) -> dict[str, str]:
    """What the program says; the JVM compiles it in memory."""
    jars = os.pathsep.join(map(str, need_registry_client()))
    command = [need_java(), *SHORT_LIVED, f"-Dlog4j.configuration=file:{LOG4J}", "-cp", jars, str(PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.fixture
def kafka_with_a_record(kafka: Kafka, client: SchemaRegistryClient) -> Kafka:
    producer = SerializingProducer(
        {"bootstrap.servers": kafka.bootstrap_servers, "value.serializer": AvroSerializer(client, ORDER)}
    )
    producer.produce("of-python", value={"id": 8})
    assert producer.flush(CLIENT_SECONDS_MAX) == 0
    return kafka


def test_confluents_java_client_is_answered_and_its_records_are_read_in_python_and_the_reverse(
    kafka_with_a_record: Kafka, client: SchemaRegistryClient
) -> None:
    kafka = kafka_with_a_record
    assert run_program(kafka.bootstrap_servers, kafka.registry.url) == EXPECTED
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "of-python",
            "value.deserializer": AvroDeserializer(client),
        }
    )
    consumer.assign([TopicPartition("of-java", 0, 0)])
    message = consumer.poll(CLIENT_SECONDS_MAX)
    assert message is not None
    assert message.value() == {"id": 7, "note": "of Java"}
    consumer.close()
