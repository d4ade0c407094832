"""confluent-kafka's client of a registry and its serializers, against the registry of the test kit."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.schema_registry import (
    AssociationCreateOrUpdateRequest,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from sordini.testing import Kafka

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
NOTED = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": ""}],
    }
)
OTHER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
POINT = json.dumps({"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}})


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def round_trip(serializer: Any, deserializer: Any, topic: str, value: Any) -> Any:
    data = serializer(value, value_of(topic))
    assert data is not None
    assert data[0] == 0
    return deserializer(data, value_of(topic))


def test_records_of_avro_go_through_a_topic(kafka: Kafka, client: SchemaRegistryClient) -> None:
    topic = kafka.topic()
    producer = SerializingProducer(
        {"bootstrap.servers": kafka.bootstrap_servers, "value.serializer": AvroSerializer(client, ORDER)}
    )
    producer.produce(topic, value={"id": 7})
    producer.flush(20)
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "value.deserializer": AvroDeserializer(client, NOTED),
        }
    )
    consumer.subscribe([topic])
    record = None
    for _ in range(40):
        record = consumer.poll(0.5)
        if record is not None:
            break
    consumer.close()
    assert record is not None
    assert record.value() == {"id": 7, "note": ""}
    assert client.get_versions(f"{topic}-value") == [1]


def test_json_schema(client: SchemaRegistryClient) -> None:
    found = round_trip(
        JSONSerializer(POINT, client), JSONDeserializer(POINT, schema_registry_client=client), "j", {"x": 1}
    )
    assert found == {"x": 1}
    assert client.get_latest_version("j-value").schema.schema_type == "JSON"


def messages(number: int) -> tuple[type[Message], type[Message]]:
    """A message, and one that has it as a field and is in another file."""
    pool = descriptor_pool.DescriptorPool()
    base = descriptor_pb2.FileDescriptorProto(name=f"base{number}.proto", package="shop", syntax="proto3")
    item = base.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=9, label=1, json_name="name")
    order = descriptor_pb2.FileDescriptorProto(
        name=f"order{number}.proto", package="shop", syntax="proto3", dependency=[base.name]
    )
    made = order.message_type.add(name="Order")
    made.field.add(name="item", number=1, type=11, label=1, type_name=".shop.Item", json_name="item")
    pool.Add(base)
    pool.Add(order)
    item_class, order_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Item", "Order")
    )
    return item_class, order_class


def test_protobuf(client: SchemaRegistryClient) -> None:
    item, _ = messages(1)
    serializer = ProtobufSerializer(item, client, {"use.deprecated.format": False})
    deserializer = ProtobufDeserializer(item, {"use.deprecated.format": False}, client)
    assert round_trip(serializer, deserializer, "items", item(name="fig")) == item(name="fig")


def test_protobuf_with_a_reference_and_another_client_that_reads(kafka: Kafka, client: SchemaRegistryClient) -> None:
    item, order = messages(2)
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    with SchemaRegistryClient({"url": kafka.registry.url}) as other:
        deserializer = ProtobufDeserializer(order, {"use.deprecated.format": False}, other)
        sent = order(item=item(name="fig"))
        assert round_trip(serializer, deserializer, "orders", sent) == sent
        latest = other.get_latest_version("orders-value")
    assert latest.schema.schema_type == "PROTOBUF"
    assert [(one.name, one.version) for one in latest.schema.references] == [("base2.proto", 1)]
    assert "message Order {" in (latest.schema.schema_str or "")


def test_avro_with_a_reference(client: SchemaRegistryClient) -> None:
    base = Schema(
        json.dumps({"type": "record", "name": "Base", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}),
        "AVRO",
    )
    client.register_schema("base", base)
    user = Schema(
        json.dumps({"type": "record", "name": "User", "namespace": "n", "fields": [{"name": "b", "type": "n.Base"}]}),
        "AVRO",
        [SchemaReference("n.Base", "base", 1)],
    )
    assert round_trip(AvroSerializer(client, user), AvroDeserializer(client), "u", {"b": {"x": 1}}) == {"b": {"x": 1}}
    number = client.get_latest_version("u-value").schema_id
    assert client.get_referenced_by("base", 1) == [number]
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_subject("base")
    assert refused.value.error_code == 42206


def test_without_auto_registration_a_schema_has_to_be_there(client: SchemaRegistryClient) -> None:
    serializer = AvroSerializer(client, ORDER, conf={"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError) as refused:
        serializer({"id": 1}, value_of("manual"))
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)
    client.register_schema("manual-value", Schema(ORDER, "AVRO"))
    serializer = AvroSerializer(client, ORDER, conf={"auto.register.schemas": False})
    assert round_trip(serializer, AvroDeserializer(client), "manual", {"id": 1}) == {"id": 1}


def test_the_latest_version_is_used_where_it_is_asked_for(client: SchemaRegistryClient) -> None:
    client.register_schema("latest-value", Schema(ORDER, "AVRO"))
    client.register_schema("latest-value", Schema(NOTED, "AVRO"))
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    serializer = AvroSerializer(client, ORDER, conf=conf)
    assert round_trip(serializer, AvroDeserializer(client), "latest", {"id": 1, "note": "n"}) == {"id": 1, "note": "n"}


def test_a_schema_that_is_not_compatible_is_refused_with_the_reason(client: SchemaRegistryClient) -> None:
    client.register_schema("strict", Schema(ORDER, "AVRO"))
    assert not client.test_compatibility("strict", Schema(OTHER, "AVRO"))
    assert client.test_compatibility("strict", Schema(NOTED, "AVRO"))
    with pytest.raises(SchemaRegistryError, match="TYPE_MISMATCH") as refused:
        client.register_schema("strict", Schema(OTHER, "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)


def test_lookups_of_the_client(client: SchemaRegistryClient) -> None:
    number = client.register_schema("looked/up", Schema(ORDER, "AVRO"))
    version = client.lookup_schema("looked/up", Schema(ORDER, "AVRO"))
    assert (version.schema_id, version.version, version.subject) == (number, 1, "looked/up")
    assert json.loads(client.get_schema(number).schema_str or "") == json.loads(ORDER)
    assert client.get_schema_by_guid(version.guid).schema_str == client.get_schema(number).schema_str
    assert "looked/up" in client.get_subjects()
    assert client.get_subjects(subject_prefix="looked") == ["looked/up"]
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
    assert {one.subject for one in client.get_schema_versions(number)} >= {"looked/up"}
    assert client.get_contexts() == ["."]


def test_metadata_and_rules_are_stored_and_found(client: SchemaRegistryClient) -> None:
    metadata = Metadata(tags=None, properties=MetadataProperties({"major": "1"}), sensitive=None)
    rule = Rule(
        name="r", doc=None, kind=RuleKind.CONDITION, mode=RuleMode.WRITE, type="CEL", tags=[], params=None, expr="true",
        on_success=None, on_failure=None, disabled=False,
    )  # fmt: skip
    rules = RuleSet(migration_rules=None, domain_rules=[rule])
    client.register_schema("ruled", Schema(ORDER, "AVRO", metadata=metadata, rule_set=rules))
    found = client.get_latest_with_metadata("ruled", {"major": "1"})
    assert found.version == 1
    assert found.schema.rule_set.domain_rules[0].name == "r"


def test_deletions_of_the_client(client: SchemaRegistryClient) -> None:
    for text in (ORDER, NOTED):
        client.register_schema("old", Schema(text, "AVRO"))
    assert client.delete_version("old", 1) == 1
    assert client.get_versions("old") == [2]
    assert client.get_versions("old", deleted=True) == [1, 2]
    assert client.delete_version("old", 1, permanent=True) == 1
    assert client.delete_subject("old") == [2]
    assert client.delete_subject("old", permanent=True) == [2]
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_version("old")
    assert refused.value.error_code == 40401


def test_settings_of_the_client(client: SchemaRegistryClient) -> None:
    assert client.get_config().compatibility_level.value == "BACKWARD"
    client.set_config("set", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major"))
    assert client.get_config("set").compatibility_group == "major"
    assert client.get_compatibility("set") == "FULL"
    client.delete_config("set")
    assert client.get_global_mode() == "READWRITE"
    client.update_mode("set", "READONLY")
    assert client.get_mode("set") == "READONLY"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("set", Schema(ORDER, "AVRO"))
    assert refused.value.error_code == 42205
    client.delete_mode("set")


def test_the_client_s_other_methods(client: SchemaRegistryClient) -> None:
    full = client.register_schema_full_response("full", Schema(ORDER, "AVRO"))
    assert (full.subject, full.version, full.guid is not None) == ("full", 1, True)
    number = full.schema_id
    assert "full" in client.get_subjects_by_schema_id(number)
    assert client.get_version("full", 1).schema_id == number
    assert client.test_compatibility_all_versions("full", Schema(NOTED, "AVRO"))
    assert not client.test_compatibility_all_versions("full", Schema(OTHER, "AVRO"))
    client.set_compatibility("full", "NONE")
    assert client.test_compatibility_all_versions("full", Schema(OTHER, "AVRO"))
    client.update_global_mode("READONLY")
    client.update_global_mode("READWRITE", force=True)
    client.clear_latest_caches()
    client.clear_caches()
    assert client.get_schema(number).schema_type == "AVRO"


def test_settings_of_a_subject_are_parts_of_what_is_registered(client: SchemaRegistryClient) -> None:
    owned = Metadata(tags=None, properties=MetadataProperties({"owner": "ann"}), sensitive=None)
    client.set_config("owned", ServerConfig(override_metadata=owned))
    client.register_schema("owned", Schema(ORDER, "AVRO"))
    assert client.get_latest_with_metadata("owned", {"owner": "ann"}).version == 1


def test_associations_are_refused_as_by_registries_that_have_none(client: SchemaRegistryClient) -> None:
    request = AssociationCreateOrUpdateRequest(
        resource_name="orders", resource_namespace="lkc-1", resource_id="lkc-1:orders", associations=[]
    )
    for attempt in (
        lambda: client.get_associations_by_resource_name("orders", "-"),
        lambda: client.create_association(request),
        lambda: client.delete_associations("lkc-1:orders"),
    ):
        with pytest.raises(SchemaRegistryError) as refused:
            attempt()
        assert (refused.value.http_status_code, refused.value.error_code) == (404, 404)


def test_every_method_of_the_client_is_called_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    names = {name for name, _ in inspect.getmembers(SchemaRegistryClient) if not name.startswith("_")}
    assert {name for name in names if f"client.{name}(" not in text} == {"close", "config", "new_client"}
