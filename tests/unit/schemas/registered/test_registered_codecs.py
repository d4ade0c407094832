"""Values with the header of a registry."""

from __future__ import annotations

import pytest

from sordini.schemas.codecs import Json, ValueRefused
from sordini.schemas.registered.registered_codecs import CODECS_MAX, RegisteredCodecs
from sordini.schemas.registered.types import InvalidSchema, SchemaSource, SchemaType

SOURCES = {
    1: SchemaSource(SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}', (), {}),
    2: SchemaSource(SchemaType.JSON, '{"type":"object","required":["a"]}', (), {}),
    3: SchemaSource(
        SchemaType.PROTOBUF,
        'syntax = "proto3"; message A { int32 a = 1; } message B { message C { bool c = 1; } }',
        (),
        {},
    ),
    4: SchemaSource(SchemaType.AVRO, '"nothing"', (), {}),
}


def codecs() -> RegisteredCodecs:
    return RegisteredCodecs(SOURCES.__getitem__)


@pytest.mark.parametrize(
    ("schema_id", "value", "index", "data"),
    [
        (1, {"a": 5}, (0,), b"\x00\x00\x00\x00\x01\x0a"),
        (2, {"a": 5}, (0,), b'\x00\x00\x00\x00\x02{"a":5}'),
        (3, {"a": 5}, (0,), b"\x00\x00\x00\x00\x03\x00\x08\x05"),
        (3, {"c": True}, (1, 0), b"\x00\x00\x00\x00\x03\x04\x02\x00\x08\x01"),
    ],
)
def test_a_value_has_the_id_of_its_schema_and_for_protobuf_the_way_to_its_message(
    schema_id: int, value: Json, index: tuple[int, ...], data: bytes
) -> None:
    assert codecs().encode(schema_id, value, index) == data
    assert codecs().decode(data) == (schema_id, value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{}", "2 bytes"),
        (b"\x05\x00\x00\x00\x01\x0a", "first byte is 5"),
        (b"\x00\x00\x00\x00\x01", "ends too early"),
        (b"\x00\x00\x00\x00\x02{}", "'a' is a required property"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueRefused, match=reason):
        codecs().decode(data)


def test_a_schema_that_cannot_be_used_and_a_message_that_is_not_there_are_said() -> None:
    with pytest.raises(InvalidSchema, match="not defined"):
        codecs().decode(b"\x00\x00\x00\x00\x04x")
    with pytest.raises(InvalidSchema, match=r"no message \[7\]"):
        codecs().decode(b"\x00\x00\x00\x00\x03\x02\x0e")
    with pytest.raises(KeyError):
        codecs().decode(b"\x00\x00\x00\x00\x09x")


def test_the_source_of_a_schema_is_found_once_while_it_is_kept() -> None:
    found: list[int] = []

    def source_of(schema_id: int) -> SchemaSource:
        found.append(schema_id)
        return SOURCES[1]

    made = RegisteredCodecs(source_of)
    for schema_id in (7, 7, *range(CODECS_MAX + 7), CODECS_MAX + 6):
        made.encode(schema_id, {"a": 1})
    assert found == [7, *(number for number in range(CODECS_MAX + 7) if number != 7)]
    made.encode(7, {"a": 1})
    assert found[-1] == 7
