"""Topics with `sordini.schema.validate=full`: values that their schema decodes, and those that it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2

from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.compression import LZ4
from sordini.testing import Kafka, make_kafka
from tests.registry.test_schema_checks import framed, listed, produced, register

FULL = {"sordini.schema.validate": "full"}
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
BASKET = json.dumps(
    {"type": "record", "name": "Basket", "fields": [{"name": "orders", "type": {"type": "array", "items": "Order"}}]}
)
POINT = json.dumps({"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})
LINE = json.dumps({"title": "Line", "type": "object", "properties": {"from": {"$ref": "point.json"}}})
PROTO = 'syntax = "proto3"; message Outer { message Inner { string name = 1; } Inner inner = 1; }'


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.topic(config=FULL)


def registered(client: SchemaRegistryClient, topic: str, text: str, kind: str, references: Any = None) -> int:
    return client.register_schema(f"{topic}-value", Schema(text, kind, references or []))


def why(kafka: Kafka, topic: str, *values: bytes | None, codec: int = 0) -> list[tuple[int, str | None]]:
    """The records that are refused, with reasons; none: the batch is appended."""
    row = produced(kafka, topic, values, codec=codec)
    assert (row.error_code == ErrorCode.NONE) == (not row.record_errors), row.error_message
    if row.record_errors:
        assert row.error_code == ErrorCode.INVALID_RECORD
    return listed(row)


def test_what_the_three_serializers_write_is_appended(kafka: Kafka, client: SchemaRegistryClient) -> None:
    settings = {"use.deprecated.format": False}
    kind = timestamp_pb2.Timestamp
    for serializer, value in (
        (AvroSerializer(client, ORDER), {"id": 7}),
        (JSONSerializer(POINT, client), {"x": 7}),
        (ProtobufSerializer(kind, client, settings), kind(seconds=7)),
    ):
        topic = kafka.topic(config=FULL)
        data = serializer(value, SerializationContext(topic, MessageField.VALUE))
        assert data is not None
        assert why(kafka, topic, data, None, data) == []
        assert kafka.end_offsets(topic) == {0: 3}


def test_a_value_of_another_schema_is_refused_with_its_index_and_reason(
    kafka: Kafka, client: SchemaRegistryClient, topic: str
) -> None:
    order = registered(client, topic, ORDER, "AVRO")
    right = framed(order, b"\x0e")
    rows = why(kafka, topic, right, framed(order, b""), right, framed(order, b"\x0e\x0e"))
    assert rows == [
        (1, f"schema id {order}: not Avro of this schema: it ends too early"),
        (3, f"schema id {order}: not Avro of this schema: 1 bytes are left behind the value"),
    ]
    assert kafka.end_offsets(topic) == {0: 0}
    assert why(kafka, topic, right, right, codec=LZ4) == []
    assert [index for index, _ in why(kafka, topic, right, framed(order, b""), codec=LZ4)] == [1]


def test_values_of_json_fit_their_schema(kafka: Kafka, client: SchemaRegistryClient, topic: str) -> None:
    point = registered(client, topic, POINT, "JSON")
    assert why(kafka, topic, framed(point, b'{"x": 1}')) == []
    rows = why(kafka, topic, framed(point, b'{"x": "1"}'), framed(point, b"{"), framed(point, b"[" * 100_000))
    assert [index for index, _ in rows] == [0, 1, 2]
    assert "$.x: '1' is not of type 'integer'" in (rows[0][1] or "")
    assert all(len(reason or "") <= 350 for _, reason in rows)


def test_values_of_protobuf_name_a_message_of_the_schema(
    kafka: Kafka, client: SchemaRegistryClient, topic: str
) -> None:
    outer = registered(client, topic, PROTO, "PROTOBUF")
    assert why(kafka, topic, framed(outer, b"\0\x0a\x03\x0a\x01x"), framed(outer, b"\x04\0\0\x0a\x01x")) == []
    rows = why(kafka, topic, framed(outer, b"\0\x0a\x03"), framed(outer, b"\x02\x0a"), framed(outer, b""))
    assert [index for index, _ in rows] == [0, 1, 2]
    assert "there is no message [5]" in (rows[1][1] or "")


def test_schemas_with_references_decode(kafka: Kafka, client: SchemaRegistryClient) -> None:
    first, second = kafka.topic(config=FULL), kafka.topic(config=FULL)
    registered(client, "order", ORDER, "AVRO")
    basket = registered(client, first, BASKET, "AVRO", [SchemaReference("Order", "order-value", 1)])
    assert why(kafka, first, framed(basket, b"\x02\x0e\0")) == []
    assert [index for index, _ in why(kafka, first, framed(basket, b"\x02"))] == [0]
    registered(client, "point", POINT, "JSON")
    line = registered(client, second, LINE, "JSON", [SchemaReference("point.json", "point-value", 1)])
    assert why(kafka, second, framed(line, b'{"from": {"x": 1}}')) == []
    assert [index for index, _ in why(kafka, second, framed(line, b'{"from": {}}'))] == [0]


def test_ids_are_checked_as_with_id(kafka: Kafka, client: SchemaRegistryClient, topic: str) -> None:
    registered(client, topic, ORDER, "AVRO")
    assert why(kafka, topic, b"plain", None, framed(4711)) == [
        (0, "the value does not begin with a schema id"),
        (2, f"schema id 4711 is not registered for subject '{topic}-value'"),
    ]


def test_a_schema_that_was_registered_just_now_decodes(kafka: Kafka, client: SchemaRegistryClient, topic: str) -> None:
    text, fields = json.loads(ORDER), [{"name": "id", "type": "long"}]
    for number in range(3):
        text["fields"] = fields + [{"name": f"f{one}", "type": "int", "default": 0} for one in range(number)]
        newest = registered(client, topic, json.dumps(text), "AVRO")
        assert why(kafka, topic, framed(newest, b"\x0e" + b"\0" * number)) == []
        assert [index for index, _ in why(kafka, topic, framed(newest, b"\x0e" + b"\0" * (number + 1)))] == [0]


def test_a_pattern_that_python_cannot_run_refuses_its_values_and_not_others(
    kafka: Kafka, client: SchemaRegistryClient, topic: str
) -> None:
    text = json.dumps({"type": "object", "properties": {"x": {"type": "string", "pattern": "\\p{Lu}"}}})
    schema_id = registered(client, topic, text, "JSON")
    assert [
        index for index, _ in why(kafka, topic, framed(schema_id, b'{"y": 1}'), framed(schema_id, b'{"x": "A"}'))
    ] == [1]


def test_a_topic_with_ids_before_and_beside_one_with_values_keeps_its_checks() -> None:
    """The texts are read from the beginning when the first value is decoded."""
    with make_kafka() as kafka:
        kafka.topic("_schemas", config={"cleanup.policy": "compact"})
        ids, values = kafka.topic(config={"sordini.schema.validate": "id"}), kafka.topic(config=FULL)
        register(kafka, f"{ids}-value", 1, 5)
        register(kafka, f"{values}-value", 1, 6, schema='"long"')
        assert why(kafka, ids, framed(5)) == []
        assert why(kafka, values, framed(6, b"\x0e")) == []
        assert [index for index, _ in why(kafka, values, framed(6, b""))] == [0]
        assert [index for index, _ in why(kafka, ids, framed(5), framed(6))] == [1]
        register(kafka, f"{values}-value", 2, 7, schema='"string"')
        assert why(kafka, values, framed(7, b"\x02x"), framed(6, b"\x0e")) == []
        assert why(kafka, ids, framed(5)) == []


@pytest.mark.parametrize("settings", [{"enable.idempotence": True}, {"transactional.id": "writer"}])
def test_a_producer_with_sequences_goes_on_behind_a_refused_batch_as_with_id(
    kafka: Kafka, client: SchemaRegistryClient, settings: dict[str, Any]
) -> None:
    """Its next batches are in order: the same outcome for a value without an id and for one that does not decode."""
    outcomes = []
    for level in ("id", "full"):
        topic = kafka.topic(config={"sordini.schema.validate": level})
        order = registered(client, topic, ORDER, "AVRO")
        right, wrong = framed(order, b"\x0e"), {"id": b"plain", "full": framed(order, b"")}[level]
        outcomes.append(_codes(kafka, topic, settings, [right, wrong, right, right]))
        assert kafka.end_offsets(topic)[0] >= 1
    assert outcomes[0] == outcomes[1]
    assert outcomes[1][1] == KafkaError.INVALID_RECORD


def _codes(kafka: Kafka, topic: str, settings: dict[str, Any], values: list[bytes]) -> list[int]:
    """What becomes of values that are sent one after the other, each in a batch of its own; 0 for one that is appended."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(20)
        producer.begin_transaction()
    for value in values:
        try:
            producer.produce(topic, value, on_delivery=lambda error, _: codes.append(error.code() if error else 0))
        except KafkaException as error:
            codes.append(error.args[0].code())
        assert producer.flush(20) == 0
    return codes
