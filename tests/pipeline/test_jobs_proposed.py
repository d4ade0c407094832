"""What `sordini pipeline infer` proposes for a topic is a job that Spark loads as it is, into tables of both kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sordini.pipeline.cli.infer import infer
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.load import load
from sordini.testing import Kafka, make_kafka
from tests.support.frames import plain_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")]
ORDERS: list[dict[str, Any]] = [
    {"id": 1, "timestamp": 5, "ship to": {"zip": "8000"}, "tags": ["a"], "lines": [{"sku": "x", "count": 1}]},
    {"id": 2, "timestamp": None, "ship to": None, "tags": [], "lines": [{"sku": "y", "count": 1.5}], "paid": True},
]
RECORD = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"], "default": None}],
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(registry=True) as made:
        yield made


def send(kafka: Kafka, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def loaded(kafka: Kafka, spark: SparkSession, folder: Path, kind: str, topic: str, *options: str) -> list[Any]:
    """The rows of the proposed job, which is run without a change."""
    asked = [topic, "--bootstrap", kafka.bootstrap_servers, "--sink", kind, *options]
    proposed = CliRunner().invoke(infer, asked, catch_exceptions=False)
    assert proposed.exit_code == 0, proposed.output
    file = folder / "job.yaml"
    file.write_text(proposed.stdout)
    job = read_job(file, {})
    assert job.sink is not None
    steps = list(load(job, spark, lambda: False, lambda _: None))
    assert [step.batch.dead for step in steps] == [0]
    return plain_rows(kind, job.sink.location).to_pylist()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_objects_of_json_are_rows_with_nested_columns(
    spark: SparkSession, kafka: Kafka, kind: str, tmp_path: Path
) -> None:
    topic = f"proposed-{kind}"
    send(kafka, topic, [json.dumps(order).encode() for order in ORDERS])
    rows = {row["id"]: row for row in loaded(kafka, spark, tmp_path, kind, topic)}
    assert {number: (row["timestamp"], row["ship_to"], row["tags"], row["paid"]) for number, row in rows.items()} == {
        1: (5, {"zip": "8000"}, ["a"], None),
        2: (None, None, [], True),
    }
    assert [rows[number]["lines"] for number in (1, 2)] == [[{"sku": "x", "count": 1.0}], [{"sku": "y", "count": 1.5}]]


def test_values_with_schemas_of_a_registry_are_rows_by_them(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic, url = "proposed-avro", kafka.registry.url
    with SchemaRegistryClient({"url": url}) as client:
        serialize = AvroSerializer(client, json.dumps(RECORD))
        context = SerializationContext(topic, MessageField.VALUE)
        send(
            kafka, topic, [serialize(row, context) for row in ({"id": 2**40, "city": None}, {"id": 1, "city": "Bern"})]
        )
    rows = loaded(kafka, spark, tmp_path, "delta", topic, "--registry", url)
    assert {row["id"]: row["city"] for row in rows} == {2**40: None, 1: "Bern"}
