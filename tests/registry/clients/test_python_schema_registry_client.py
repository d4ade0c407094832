"""python-schema-registry-client, with its serializers, against the registry of the test kit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient
from schema_registry.client.errors import ClientError
from schema_registry.client.schema import AvroSchema, JsonSchema
from schema_registry.serializers import AvroMessageSerializer, JsonMessageSerializer

from sordini.testing import make_kafka

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
NOTED = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "note", "type": "string", "default": ""}]}'
)
OTHER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'
POINT = '{"type": "object", "properties": {"x": {"type": "integer"}}}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with make_kafka(registry=True) as kafka:
        yield kafka.registry.url


@pytest.fixture
def client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient(url)


def test_records_of_avro_are_encoded_and_decoded(client: SchemaRegistryClient, url: str) -> None:
    data = AvroMessageSerializer(client).encode_record_with_schema("avro-value", AvroSchema(ORDER), {"id": 7})
    assert AvroMessageSerializer(SchemaRegistryClient(url)).decode_message(data) == {"id": 7}
    assert client.get_versions("avro-value") == [1]


def test_records_of_json_schema_are_encoded_and_decoded(client: SchemaRegistryClient, url: str) -> None:
    data = JsonMessageSerializer(client).encode_record_with_schema("json-value", JsonSchema(POINT), {"x": 1})
    assert JsonMessageSerializer(SchemaRegistryClient(url)).decode_message(data) == {"x": 1}


def test_schemas_are_registered_found_and_deleted(client: SchemaRegistryClient) -> None:
    assert client.check_version("old", AvroSchema(ORDER)) is None
    number = client.register("old", AvroSchema(ORDER))
    found = client.get_schema("old")
    assert (found.schema_id, found.version, found.schema.raw_schema) == (number, 1, AvroSchema(ORDER).raw_schema)
    assert "old" in client.get_subjects()
    assert [(row.subject, row.version) for row in client.get_schema_subject_versions(number)][-1] == ("old", 1)
    assert client.register("old", AvroSchema(NOTED)) != number
    assert client.delete_version("old", 1) == 1
    assert client.delete_subject("old") == [2]
    assert client.get_schema("old") is None
    assert client.get_versions("old") == []


def test_compatibility_is_checked_and_set(client: SchemaRegistryClient) -> None:
    client.register("strict", AvroSchema(ORDER))
    assert client.test_compatibility("strict", AvroSchema(NOTED))
    assert not client.test_compatibility("strict", AvroSchema(OTHER))
    with pytest.raises(ClientError, match="Incompatible schema") as refused:
        client.register("strict", AvroSchema(OTHER))
    assert refused.value.http_code == 409
    assert client.get_compatibility() == "BACKWARD"
    client.update_compatibility("NONE", "strict")
    assert client.get_compatibility("strict") == "NONE"
    client.register("strict", AvroSchema(OTHER))


async def test_the_client_of_asyncio(url: str) -> None:
    client = AsyncSchemaRegistryClient(url)
    number = await client.register("async", AvroSchema(ORDER))
    assert await client.get_by_id(number) == AvroSchema(ORDER)
