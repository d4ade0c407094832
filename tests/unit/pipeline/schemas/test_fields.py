from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.schemas.avro import avro_text, read_avro, to_avro
from sordini.pipeline.schemas.fields import JSON_TYPES, SPARK_NAMES, Field, Schema, SchemaError, schema_of, spark_type
from sordini.pipeline.schemas.named import NAMED, PAGE_VIEW

KINDS = st.sampled_from(sorted(SPARK_NAMES)) | st.sampled_from([f"list<{kind}>" for kind in sorted(SPARK_NAMES)])
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True).filter(
    lambda name: name.lower() not in {"topic", "partition", "offset", "timestamp"}
)
FIELDS = st.builds(Field, NAMES, KINDS, st.text(max_size=5), st.booleans())
SCHEMAS = st.lists(FIELDS, min_size=1, max_size=6, unique_by=lambda field: field.name.lower()).map(
    lambda fields: Schema("event", tuple(fields), about="An event.")
)


@given(SCHEMAS)
def test_avro_says_all_that_a_schema_says(schema: Schema) -> None:
    read = read_avro(avro_text(schema), "other")
    assert (read.name, read.fields, read.about) == (schema.name, schema.fields, schema.about)


@pytest.mark.parametrize("schema", NAMED.values(), ids=NAMED)
def test_every_schema_of_ours_is_the_same_after_avro_and_says_when_its_events_happened(schema: Schema) -> None:
    assert read_avro(avro_text(schema), "") == schema
    assert schema.event_time == "event_time"


@pytest.mark.parametrize("schema", NAMED.values(), ids=NAMED)
def test_fastavro_takes_every_schema_of_ours(schema: Schema) -> None:
    import fastavro

    assert fastavro.parse_schema(to_avro(schema))


def test_json_schema_has_every_field_and_those_that_must_be_there() -> None:
    said = PAGE_VIEW.to_json_schema()
    assert list(said["properties"]) == [field.name for field in PAGE_VIEW.fields]
    assert said["required"] == ["event_id", "event_time", "session_id", "page"]
    assert said["properties"]["member_id"]["type"] == ["integer", "null"]
    assert said["properties"]["page"]["type"] == "string"
    json.dumps(said)


def test_spark_has_every_kind() -> None:
    schema = schema_of("t", {f"a_{kind}": kind for kind in SPARK_NAMES} | {"many": "list<long>"})
    assert [spark_type(field).simpleString() for field in schema.fields] == [*SPARK_NAMES.values(), "array<bigint>"]
    assert set(JSON_TYPES) == set(SPARK_NAMES)


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"a b": "string"}, "is no name of a field"),
        ({"Offset": "long"}, "a field cannot be called 'Offset'"),
        ({"a": "text"}, "a: 'text' is not one of string"),
        ({"a": "list<list<int>>"}, "is not one of"),
        ({"a": "int", "A": "int"}, "two fields are called 'a'"),
        ({}, "has no fields"),
        ({"event_time": "string"}, "is not a field that is a timestamp"),
    ],
)
def test_what_cannot_be_a_schema_is_reported(fields: dict[str, str], reported: str) -> None:
    with pytest.raises(SchemaError, match=reported):
        schema_of("event", fields)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{", "is not JSON"),
        ('"string"', "is not an Avro record"),
        ('{"type": "record", "fields": ["a"]}', "is not a field of Avro's"),
        ('{"type": "record", "fields": [{"name": "a", "type": ["int", "string"]}]}', "a union of several types"),
        (
            '{"type": "record", "fields": [{"name": "a", "type": {"type": "map", "values": "int"}}]}',
            "has no column here",
        ),
        (
            '{"type": "record", "fields": [{"name": "a", "type": {"type": "bytes", "logicalType": "decimal"}}]}',
            "has no column here",
        ),
    ],
)
def test_what_of_avro_has_no_column_is_reported(text: str, reported: str) -> None:
    with pytest.raises(SchemaError, match=reported):
        read_avro(text, "file")


def test_a_field_of_avro_that_has_a_default_need_not_be_there() -> None:
    fields = [
        {"name": "a", "type": "int", "default": 0},
        {"name": "b", "type": "int"},
        {"name": "c", "type": ["null", "int"]},
    ]
    read = read_avro(json.dumps({"type": "record", "name": "r", "fields": fields}), "")
    assert [field.is_required for field in read.fields] == [False, True, False]
