"""Debezium's envelopes as confluent-kafka's serializers write them: what is read of them, and the job that is proposed."""

from __future__ import annotations

import base64
import decimal
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sordini.pipeline.changes.envelope import Envelope
from sordini.pipeline.changes.keys import Key
from sordini.pipeline.changes.registered_parts import envelopes, record_keys
from sordini.pipeline.jobs.infer import job_file, proposal, sample
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.job_schema import StateOf
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.kept_schemas import KeptSchemas
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.registered_columns import schema_of_versions
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.schemas.registered.registered_codecs import codec_of
from sordini.schemas.registered.types import SchemaSource, SchemaType
from sordini.schemas.registered.wire import write_header
from sordini.testing import Kafka
from tests.support.debezium_avro import envelope, key_schema, optional, value_schema

ID = Key("id", (("id",),))
LSN = ("source.lsn", Field("lsn", "long"))


def registered_at(kafka: Kafka, state: Path) -> RegisteredSchemas:
    return RegisteredSchemas((), RegistrySettings(kafka.registry.url, wait_seconds=0), StateOf(str(state)))


def schema_now(kafka: Kafka, state: Path, topic: str) -> Schema:
    schemas = KeptSchemas(RegistrySettings(kafka.registry.url, wait_seconds=0), StateFolder(str(state)))
    return schema_of_versions(f"{topic}-value", schemas.versions(f"{topic}-value"), "after")


def of_connect(kind: str, title: str, connect_type: str, **more: object) -> dict[str, Any]:
    """A property that may be null, as JSON Schema's converter of Kafka Connect writes it."""
    return {"oneOf": [{"type": "null"}, {"type": kind, "title": title, "connect.type": connect_type, **more}]}


ROW = {
    "type": "object",
    "title": "shop.public.people.Value",
    "properties": {
        "id": {"type": "integer", "connect.type": "int64"},
        "born": of_connect("integer", "io.debezium.time.Date", "int32"),
        "seen": of_connect("integer", "io.debezium.time.MicroTimestamp", "int64"),
        "price": of_connect(
            "string", "org.apache.kafka.connect.data.Decimal", "bytes", **{"connect.parameters": {"scale": "2"}}
        ),
    },
}
JSON_SCHEMA = {
    "type": "object",
    "title": "shop.public.people.Envelope",
    "properties": {
        "before": {"oneOf": [{"type": "null"}, ROW]},
        "after": {"oneOf": [{"type": "null"}, ROW]},
        "source": {"type": "object", "title": "Source", "properties": {"lsn": {"type": "integer"}}},
        "op": {"type": "string"},
    },
}


def test_an_envelope_of_json_schema_has_the_times_and_decimals_that_its_titles_say(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    topic = "changes-json"
    after = {"id": 1, "born": 20_000, "seen": 1_500_000, "price": base64.b64encode(b"\x04\xe2").decode()}
    value = {"before": None, "after": after, "source": {"lsn": 7}, "op": "c"}
    written = JSONSerializer(json.dumps(JSON_SCHEMA), client)(value, SerializationContext(topic, MessageField.VALUE))
    assert written is not None
    schema = schema_now(kafka, tmp_path, topic)
    kinds = {field.name: field.kind for field in schema.fields}
    assert kinds == {"id": "long", "born": "date_days", "seen": "timestamp_us", "price": "decimal_base64(38,2)"}
    registered = registered_at(kafka, tmp_path)
    for columns in (
        schema,
        Schema("s", (*(Field(name, kind) for name, kind in PLAIN_KINDS.items()),)),
    ):
        found = envelopes(registered, columns, [LSN])(written)
        assert found.after == ([1, 20_000, 1_500_000, decimal.Decimal("12.50")], None)
        assert (found.op, found.before, list(found.taken)) == ("c", (None, None), [7])
    key = JSONSerializer(json.dumps({"title": "Key", "type": "integer"}), client, to_dict=lambda it, _: it)
    written_key = key(5, SerializationContext(topic, MessageField.KEY))
    assert written_key is not None
    assert record_keys(registered, schema, [ID])(written_key) == ([5, None, None, None], None)


PLAIN_KINDS = {"id": "int", "born": "date", "seen": "timestamp_ntz", "price": "decimal(9,2)"}
PROTO = """syntax = "proto3";
package shop;
message Envelope {
  message Value { int64 id = 1; string name = 2; optional int32 age = 3; }
  message Source { int64 lsn = 1; }
  Value before = 1;
  Value after = 2;
  Source source = 3;
  string op = 4;
  int64 ts_ms = 5;
}
"""
PROTO_KEY = 'syntax = "proto3"; package shop; message Key { int64 id = 1; }'


def test_an_envelope_of_protobuf_has_no_part_that_was_not_written(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    topic = "changes-protobuf"
    value_id = client.register_schema(f"{topic}-value", Registered(PROTO, "PROTOBUF"))
    key_id = client.register_schema(f"{topic}-key", Registered(PROTO_KEY, "PROTOBUF"))

    def written(text: str, schema_id: int, value: dict[str, Any]) -> bytes:
        return write_header(schema_id) + b"\0" + codec_of(SchemaSource(SchemaType.PROTOBUF, text, (), {})).encode(value)

    schema = schema_now(kafka, tmp_path, topic)
    assert {field.name: field.kind for field in schema.fields} == {"id": "long", "name": "string", "age": "int"}
    registered = registered_at(kafka, tmp_path)
    read = envelopes(registered, schema, [LSN])
    found = read(written(PROTO, value_id, {"after": {"id": "1", "name": "Ada"}, "source": {"lsn": "7"}, "op": "c"}))
    assert (found.op, found.before, found.after, list(found.taken)) == (
        "c",
        (None, None),
        ([1, "Ada", None], None),
        [7],
    )
    empty = read(written(PROTO, value_id, {"before": {"id": "1"}}))
    assert (empty.op, empty.status, empty.has_after, empty.before[0]) == (None, None, False, [1, "", None])
    key = written(PROTO_KEY, key_id, {"id": "5"})
    assert record_keys(registered, schema, [ID])(key) == ([5, None, None], None)


def test_a_field_that_was_renamed_with_an_alias_is_one_column(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    topic = "changes-renamed"
    client.set_compatibility(f"{topic}-value", "NONE")
    key = {"name": "id", "type": "int"}
    for fields in (
        [key, optional("name", "string"), optional("gone", "string")],
        [{"name": "id", "type": "long"}, optional("full_name", "string", aliases=["name"])],
        [{"name": "id", "type": "long"}, optional("full_name", "string"), optional("label", "string")],
    ):
        client.register_schema(f"{topic}-value", Registered(value_schema(fields), "AVRO"))
    schema = schema_now(kafka, tmp_path, topic)
    found = {field.name: (field.kind, field.sources) for field in schema.fields}
    assert found == {
        "id": ("long", ()),
        "full_name": ("string", ("full_name", "name")),
        "label": ("string", ()),
        "gone": ("string", ()),
    }
    # What is called `name` from now on is another field, whatever an alias says.
    for aliases in ({}, {"aliases": ["name"]}):
        fields = [key, optional("full_name", "string", **aliases), optional("name", "int")]
        client.register_schema(f"{topic}-value", Registered(value_schema(fields), "AVRO"))
        now = {field.name: (field.kind, field.sources) for field in schema_now(kafka, tmp_path, topic).fields}
        assert (now["full_name"], now["name"]) == (("string", ()), ("int", ()))


def proposed(kafka: Kafka, folder: Path, topic: str, records: Sequence[tuple[Any, Any]]) -> tuple[Job, str]:
    """The job that is proposed for a topic of these records."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0
    settings = RegistrySettings(kafka.registry.url, wait_seconds=0)
    found, _ = proposal(topic, sample(topic, kafka.bootstrap_servers, 100), settings)
    file = folder / "job.yaml"
    file.write_text(job_file(topic, kafka.bootstrap_servers, found, {"url": kafka.registry.url}, "delta"))
    return read_job(file, {}), file.read_text()


def test_a_job_that_upserts_is_proposed_for_envelopes_and_follows_their_subject(
    kafka: Kafka, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    topic = "changes-proposed"
    fields = [{"name": "id", "type": "long"}, {"name": "part", "type": "int"}, optional("timestamp", "long")]
    to_value = AvroSerializer(client, value_schema(fields))
    to_key = AvroSerializer(client, key_schema(fields[:2]))
    row = {"id": 1, "part": 2, "timestamp": None}
    records = [
        (
            to_key({"id": 1, "part": 2}, SerializationContext(topic, MessageField.KEY)),
            to_value(envelope("c", 7, None, row), SerializationContext(topic, MessageField.VALUE)),
        )
    ]
    job, text = proposed(kafka, tmp_path, topic, records)
    assert job.decode.changes is Envelope.DEBEZIUM
    assert job.decode.schema is None
    assert job.decode.record.timestamp == "kafka_timestamp"
    assert job.decode.columns["lsn"][0] == "source.lsn"
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert (job.sink.upsert.keys, job.sink.upsert.sequence) == (("id", "part"), ("lsn",))
    assert "# the values are changes in Debezium's envelope.\n" in text
