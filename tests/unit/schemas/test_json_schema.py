"""JSON by JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sordini.schemas.codecs import Codec, Json, SchemaError, ValueRefused
from sordini.schemas.schema_files import read_schema

ORDER = {
    "$id": "https://example.test/schemas/order.json",
    "type": "object",
    "properties": {"id": {"$ref": "id.json"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["id"],
}


def codec(folder: Path, schema: object) -> Codec:
    (folder / "order.json").write_text(json.dumps(schema))
    return read_schema("json-schema", str(folder / "order.json"))


@pytest.fixture
def order(tmp_path: Path) -> Codec:
    (tmp_path / "id.json").write_text('{"type": "integer", "minimum": 1}')
    return codec(tmp_path, ORDER)


def test_values_that_fit_go_both_ways(order: Codec) -> None:
    value = {"id": 3, "tags": ["\u00e9"]}
    assert order.encode(value) == '{"id":3,"tags":["\u00e9"]}'.encode()
    assert order.decode(order.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "$: 'id' is a required property"),
        ({"id": 0}, "$.id: 0 is less than the minimum of 1"),
        ({"id": 1, "tags": [1, "a", 2, 3, 4]}, "$.tags[0]: 1 is not of type 'string'; $.tags[2]: 2 is not of type"),
        ({"id": 1, "tags": [1, "a", 2, 3, 4]}, ", and 1 more"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_places(order: Codec, value: Json, why: str) -> None:
    for attempt in (lambda: order.encode(value), lambda: order.decode(json.dumps(value).encode())):
        with pytest.raises(ValueRefused) as refused:
            attempt()
        assert str(refused.value).startswith("does not fit the JSON schema: ")
        assert why in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_bytes_that_are_not_json_are_refused(order: Codec, data: bytes) -> None:
    with pytest.raises(ValueRefused, match="not JSON"):
        order.decode(data)


def test_the_draft_is_that_of_the_schema(tmp_path: Path) -> None:
    schema = {"type": "array", "items": [{"type": "string"}]}
    made = codec(tmp_path, {"$schema": "http://json-schema.org/draft-07/schema#", **schema})
    with pytest.raises(ValueRefused, match="is not of type 'string'"):
        made.encode([1])


def test_what_is_not_beside_the_schema_is_not_fetched(tmp_path: Path) -> None:
    made = codec(tmp_path, {"$ref": "http://127.0.0.1:1/nowhere.json"})
    with pytest.raises(ValueRefused, match=r"refers to 'http://127.0.0.1:1/nowhere.json', which is not beside it"):
        made.encode(1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("3", "a JSON schema is an object, true or false"),
        ('{"type": "nothing"}', r"not a JSON schema: \$.type"),
    ],
)
def test_a_file_without_a_schema_is_refused_with_its_name(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(SchemaError, match=f"bad.json: {why}"):
        read_schema("json-schema", str(tmp_path / "bad.json"))
