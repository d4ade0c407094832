"""Jobs whose records have schemas in a registry: columns that follow them, into tables of both kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.load import load
from sordini.testing import Kafka, make_kafka
from tests.support.frames import plain_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(registry=True) as made:
        yield made


def send(kafka: Kafka, topic: str, fields: dict[str, Any], value: dict[str, Any]) -> None:
    record = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    with SchemaRegistryClient({"url": kafka.registry.url}) as client:
        client.set_compatibility(f"{topic}-value", "NONE")
        context = SerializationContext(topic, MessageField.VALUE)
        producer.produce(topic, AvroSerializer(client, json.dumps(record))(value, context))
        producer.produce(topic, b"\0\0\1\0\0unknown")
    assert producer.flush(30) == 0


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_columns_follow_the_versions_of_a_subject(spark: SparkSession, kafka: Kafka, kind: str, tmp_path: Path) -> None:
    topic = f"follows-{kind}"
    file = tmp_path / "job.yaml"
    file.write_text(
        f"name: follows\nsource: {{bootstrap: '{kafka.bootstrap_servers}', topics: [{topic}]}}\n"
        f"decode: {{mode: schema_id_prefix, registry: {{url: '{kafka.registry.url}', wait: 1 second}}}}\n"
        f"sink: {{kind: {kind}, location: tables/rows}}\n"
    )
    job = read_job(file, {})

    def run() -> list[tuple[int, int]]:
        steps = list(load(job, spark, lambda: False, lambda _: None))
        return [(step.batch.rows, step.batch.dead) for step in steps]

    place = {"type": "record", "name": "p", "fields": [{"name": "zip", "type": "int"}]}
    wider = {
        "type": "record",
        "name": "p",
        "fields": [{"name": "zip", "type": "long"}, {"name": "at", "type": "string"}],
    }
    time = {"type": "long", "logicalType": "local-timestamp-micros"}
    send(kafka, topic, {"a": "int", "gone": "string", "place": place}, {"a": 1, "gone": "x", "place": {"zip": 8000}})
    assert run() == [(1, 1)]
    send(
        kafka, topic, {"a": "long", "place": wider, "t": time}, {"a": 2**40, "place": {"zip": 2**40, "at": "b"}, "t": 0}
    )
    assert run() == [(1, 1)]
    rows: pa.Table = plain_rows(kind, str(tmp_path / "tables/rows"))
    found = {row["a"]: (row["gone"], row["place"], row["t"] is not None) for row in rows.to_pylist()}
    assert found == {
        1: ("x", {"zip": 8000, "at": None}, False),
        2**40: (None, {"zip": 2**40, "at": "b"}, True),
    }
