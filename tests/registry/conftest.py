"""Brokers of the kit with a registry, and confluent-kafka's client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from sordini.testing import Kafka, make_kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(registry=True) as made:
        yield made


@pytest.fixture
def client(kafka: Kafka) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": kafka.registry.url, "max.retries": 0}) as made:
        yield made
