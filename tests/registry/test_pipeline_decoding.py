"""Columns of records that confluent-kafka's serializers wrote, by the schemas of a registry, also when it is down."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import type_pb2

from sordini.pipeline.jobs.job_schema import StateOf
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.schemas.fields import Field, Schema, schema_of
from sordini.pipeline.schemas.kept_schemas import KeptSchemas, RegistryUnavailable
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.registered_columns import schema_of_versions
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.schemas.values.row_reader import REASON, columns
from sordini.testing import Kafka

NO_REGISTRY = "http://127.0.0.1:1"
ORDER = schema_of(
    "order", {"id": "long!", "price": "decimal(9,2)", "place": "struct<zip: string!>", "tags": "list<string>"}
)


def rows(registered: RegisteredSchemas, schema: Schema, *values: bytes) -> list[dict[str, Any]]:
    read = registered.reader(schema)
    found: list[dict[str, Any]] = columns(pa.array(list(values), pa.binary()), schema, read).to_pylist()
    return found


def registered_at(url: str, state: Path, wait_seconds: float = 0) -> RegisteredSchemas:
    return RegisteredSchemas((), RegistrySettings(url, wait_seconds=wait_seconds), StateOf(str(state)))


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def avro_with_a_reference(client: SchemaRegistryClient, topic: str) -> bytes:
    place = {"type": "record", "name": "Place", "fields": [{"name": "zip", "type": "string"}]}
    version = client.register_schema(f"{topic}-place", Registered(json.dumps(place), "AVRO"))
    assert version
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    order = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "price", "type": ["null", money]},
            {"name": "place", "type": "Place"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
    written = Registered(json.dumps(order), "AVRO", [SchemaReference("Place", f"{topic}-place", 1)])
    value = {"id": 7, "price": decimal.Decimal("12.50"), "place": {"zip": "8000"}, "tags": ["a"]}
    serialized = AvroSerializer(client, written)(value, context(topic))
    assert serialized is not None
    return serialized


EXPECTED = {"id": 7, "price": decimal.Decimal("12.50"), "place": {"zip": "8000"}, "tags": ["a"], REASON: None}


def test_avro_with_a_reference_is_read_also_by_a_job_that_starts_when_the_registry_is_down(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    value = avro_with_a_reference(client, "pipeline-avro")
    assert rows(registered_at(kafka.registry.url, tmp_path), ORDER, value) == [EXPECTED]
    # The same state, and nothing at the registry's address.
    [kept] = (tmp_path / "registry").iterdir()
    kept.rename(kept.with_name(RegistrySettings(NO_REGISTRY).cache_name))
    assert rows(registered_at(NO_REGISTRY, tmp_path), ORDER, value) == [EXPECTED]


def test_json_of_the_serializer_is_read(kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path) -> None:
    form = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "price": {"type": "number"}}}
    serializer = JSONSerializer(json.dumps(form), client)
    value = serializer({"id": 7, "price": 12.5, "place": {"zip": "8000"}, "tags": ["a"]}, context("pipeline-json"))
    assert value is not None
    assert rows(registered_at(kafka.registry.url, tmp_path), ORDER, value) == [EXPECTED]


def test_protobuf_of_the_serializer_with_references_is_read(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    serializer = ProtobufSerializer(type_pb2.Type, client, {"use.deprecated.format": False, "skip.known.types": False})
    message = type_pb2.Type(name="n", oneofs=["a", "b"], syntax=1)
    message.source_context.file_name = "f"
    value = serializer(message, context("pipeline-protobuf"))
    assert value is not None
    schema = Schema(
        "t",
        (
            Field("name", "string"),
            Field("oneofs", "list<string>"),
            Field("syntax", "enum(SYNTAX_PROTO2,SYNTAX_PROTO3,SYNTAX_EDITIONS)"),
            Field("file", "string", sources=("$.source_context.file_name",)),
            Field("edition", "string"),
        ),
    )
    found = {"name": "n", "oneofs": ["a", "b"], "syntax": "SYNTAX_PROTO3", "file": "f", "edition": "", REASON: None}
    assert rows(registered_at(kafka.registry.url, tmp_path), schema, value) == [found]


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  message Line { string sku = 1; uint64 count = 2; }
  enum State { NEW = 0; PAID = 1; }
  int64 id = 1;
  repeated Line lines = 2;
  map<string, double> prices = 3;
  State state = 4;
  google.protobuf.Timestamp at = 5;
  bytes raw_bytes = 6;
}
"""


def test_a_message_of_protobuf_has_its_columns_and_its_defaults(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    from sordini.schemas.registered.registered_codecs import codec_of
    from sordini.schemas.registered.types import SchemaSource, SchemaType
    from sordini.schemas.registered.wire import write_header

    schema_id = client.register_schema("pipeline-proto-value", Registered(PROTO, "PROTOBUF"))
    settings = RegistrySettings(kafka.registry.url, wait_seconds=0)
    schemas = KeptSchemas(settings, StateFolder(str(tmp_path)))
    schema = schema_of_versions("pipeline-proto-value", schemas.versions("pipeline-proto-value"))
    assert {field.name: field.kind for field in schema.fields} == {
        "id": "long",
        "lines": "list<struct<sku: string, count: decimal(20,0)>>",
        "prices": "map<string,double>",
        "state": "enum(NEW,PAID)",
        "at": "timestamp",
        "raw_bytes": "binary",
    }
    codec = codec_of(SchemaSource(SchemaType.PROTOBUF, PROTO, (), {}))
    full = {
        "id": "7",
        "lines": [{"sku": "a", "count": "18446744073709551615"}],
        "prices": {"x": 0.5},
        "at": "2026-11-22T08:00:00Z",
    }
    head = write_header(schema_id) + b"\0"
    [row, empty] = rows(registered_at(kafka.registry.url, tmp_path), schema, head + codec.encode(full), head)
    assert (row["id"], row["lines"], row["state"]) == (7, [{"sku": "a", "count": 2**64 - 1}], "NEW")
    assert (row["at"].year, row["prices"], row["raw_bytes"], row[REASON]) == (2026, [("x", 0.5)], b"", None)
    assert (empty["id"], empty["lines"], empty["at"], empty[REASON]) == (0, [], None, None)


def test_new_versions_of_a_subject_add_columns_and_widen_them_and_none_goes(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    client.set_compatibility("pipeline-grows-value", "NONE")

    def register(**fields: Any) -> int:
        record = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
        return client.register_schema("pipeline-grows-value", Registered(json.dumps(record), "AVRO"))

    def now(url: str) -> dict[str, str]:
        schemas = KeptSchemas(RegistrySettings(url, wait_seconds=0), StateFolder(str(tmp_path)))
        found = schema_of_versions("pipeline-grows-value", schemas.versions("pipeline-grows-value"))
        return {field.name: field.kind for field in found.fields}

    register(a="int", b="string")
    assert now(kafka.registry.url) == {"a": "int", "b": "string"}
    register(a="long", c="float")
    assert now(kafka.registry.url) == {"a": "long", "c": "float", "b": "string"}
    register(a="int", c="double")
    assert now(kafka.registry.url) == {"a": "long", "c": "double", "b": "string"}


def test_an_id_that_the_registry_does_not_know_is_a_dead_letter(kafka: Kafka, tmp_path: Path) -> None:
    registered = registered_at(kafka.registry.url, tmp_path)
    [row] = rows(registered, ORDER, b"\0\0\1\0\0rest")
    assert row[REASON] == "was written with schema 65536, which the registry does not have"


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_no_record_is_a_dead_letter_because_a_registry_is_down_or_is_none(
    path: str, kafka: Kafka, tmp_path: Path
) -> None:
    url = f"{kafka.registry.url}{path}" if path else NO_REGISTRY
    with pytest.raises(RegistryUnavailable, match="no record was decoded without its schema"):
        rows(registered_at(url, tmp_path), ORDER, b"\0\0\0\0\1rest")
    assert not list(tmp_path.rglob("*.json"))


def test_a_job_is_proposed_for_a_topic_with_schema_ids_and_for_one_of_json(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    from sordini.pipeline.jobs.infer import job_file, proposal, sample
    from sordini.pipeline.jobs.job_file import read_job

    record = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    value = AvroSerializer(client, json.dumps(record))({"a": 1}, context("inferred"))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("inferred", value)
    producer.produce("inferred-json", b'{"a": {"b": [1]}}')
    assert producer.flush(30) == 0
    settings = RegistrySettings(kafka.registry.url, wait_seconds=0)
    found, follows = proposal("inferred", sample("inferred", kafka.bootstrap_servers, 10), settings)
    assert follows
    file = tmp_path / "job.yaml"
    file.write_text(job_file("inferred", kafka.bootstrap_servers, found, {"url": kafka.registry.url}, "delta"))
    job = read_job(file, {})
    assert job.decode.registry == RegistrySettings(kafka.registry.url)
    found, _ = proposal("inferred-json", sample("inferred-json", kafka.bootstrap_servers, 10), settings)
    assert [(field.name, field.kind) for field in found.fields] == [("a", "struct<b: list<long>>")]
