from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings

from sordini.pipeline.schemas.avro import avro_text, read_avro
from sordini.pipeline.schemas.column_types import SPARK_NAMES, arrow_type, spark_name, spark_type
from sordini.pipeline.schemas.fields import RECORD, RecordColumns, Schema, SchemaError, field_of, schema_of
from sordini.pipeline.schemas.json_schema import read_json_schema, to_json_schema
from sordini.pipeline.schemas.kinds import PLAIN, Kind, depth_of, kind_of, text_of
from sordini.pipeline.schemas.registered_columns import merged_kind, optional
from sordini.pipeline.schemas.sources import source_of
from tests.support.pipeline_schemas import KINDS, SCHEMAS, without_sources

EXAMPLES = 500 if os.environ.get("SORDINI_PIPELINE") == "all" else 30


@given(KINDS)
@settings(max_examples=EXAMPLES)
def test_the_text_of_a_kind_says_all_of_it_but_what_its_fields_say(kind: Kind) -> None:
    plain = without_sources(schema_of("s", {"a": text_of(kind)})).fields[0].type
    assert kind_of(text_of(kind)) == plain
    assert depth_of(plain) == depth_of(kind)


@given(SCHEMAS)
@settings(max_examples=EXAMPLES)
def test_json_schema_says_all_that_a_schema_says(schema: Schema) -> None:
    assert read_json_schema(json.dumps(to_json_schema(schema)), "other") == schema


@given(SCHEMAS)
@settings(max_examples=EXAMPLES)
def test_spark_and_arrow_have_each_kind(schema: Schema) -> None:
    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

    from sordini.pipeline.tables.columns import arrow_schema

    columns = StructType([StructField(field.name, spark_type(field.type)) for field in schema.fields])
    assert arrow_schema(columns) == pa.schema([(field.name, arrow_type(field.type)) for field in schema.fields])
    assert [field.dataType.simpleString() for field in columns] == [spark_name(field.type) for field in schema.fields]


@given(KINDS, KINDS)
@settings(max_examples=EXAMPLES)
def test_what_two_kinds_have_in_common_is_their_merger_s_too(one: Kind, other: Kind) -> None:
    old, new = (optional((field_of("a", kind),))[0].type for kind in (one, other))
    merged = merged_kind(old, new)
    assert merged_kind(merged, new) == merged_kind(merged, merged) == merged


@given(SCHEMAS)
@settings(max_examples=EXAMPLES)
def test_avro_says_all_that_a_schema_says(schema: Schema) -> None:
    read = read_avro(avro_text(schema), "other")
    assert (read.name, read.fields, read.about) == (schema.name, schema.fields, schema.about)


def test_json_schema_has_every_field_and_those_that_must_be_there() -> None:
    said = to_json_schema(schema_of("page_view", {"event_time": "timestamp!", "member_id": "long", "page": "string!"}))
    assert list(said["properties"]) == ["event_time", "member_id", "page"]
    assert said["required"] == ["event_time", "page"]
    assert said["properties"]["member_id"]["type"] == ["integer", "null"]
    assert said["properties"]["page"]["type"] == "string"
    json.dumps(said)


def test_spark_has_every_plain_kind() -> None:
    assert set(SPARK_NAMES) == set(PLAIN)


@pytest.mark.parametrize("name", ["topic", "Offset", "timestamp"])
def test_a_field_with_the_name_of_a_column_of_the_record_needs_a_prefix_for_those(name: str) -> None:
    schema = schema_of("e", {name: "long"})
    schema.check_record_columns(RecordColumns.prefixed("kafka_"))
    with pytest.raises(SchemaError, match=f"a field cannot be called '{name}'.*record_prefix"):
        schema.check_record_columns(RECORD)


@pytest.mark.parametrize("path", ["$", "$.", "$a", "$.a[b]", "$.a[-1]", "$.a..b", "$['a]", "", "$.a[12345678901]"])
def test_what_is_no_path_is_reported(path: str) -> None:
    with pytest.raises(SchemaError):
        source_of(path)


def test_a_path_is_names_and_indexes() -> None:
    assert source_of("$.a.b[0]['c d'][\"e\"].f-g") == ("a", "b", 0, "c d", "e", "f-g")
    assert source_of("a.b[0]") == ("a.b[0]",)


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"a b": "string"}, "is no name of a field"),
        ({"a": "text"}, "a: 'text' is not one of string"),
        ({"a": "list<int"}, "is not one of"),
        ({"a": "map<int,int>"}, "is not one of"),
        ({"a": "decimal(39,2)"}, "has 1 to 38 digits"),
        ({"a": "decimal(3,4)"}, "has 1 to 38 digits"),
        ({"a": "enum(A,A)"}, "each once"),
        ({"a": "struct<b: int, B: int>"}, "two fields are called 'b'"),
        ({"a": "struct<b: number>"}, "is not one of"),
        ({"a": "list<" * 30 + "int" + ">" * 30}, "more than 20"),
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
            '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}',
            "a: the record r is within itself",
        ),
        ('{"type": "record", "fields": [{"name": "a", "type": "other"}]}', "has no column here"),
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


def test_types_of_avro_can_be_named_again_with_and_without_their_namespace() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "zip", "type": "string"}]}
    record = {
        "type": "record",
        "name": "r",
        "namespace": "shop",
        "fields": [
            {"name": "a", "type": place},
            {"name": "b", "type": ["null", "Place"]},
            {"name": "c", "type": {"type": "array", "items": "shop.Place"}, "aliases": ["old"]},
        ],
    }
    found = read_avro(json.dumps(record), "")
    assert [field.kind for field in found.fields] == [
        "struct<zip: string!>",
        "struct<zip: string!>",
        "list<struct<zip: string!>>",
    ]
    assert found.fields[2].sources == ("c", "old")


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ({"type": "integer"}, "long"),
        ({"type": ["null", "number"]}, "double"),
        ({"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]}, "timestamp"),
        ({"$ref": "#/$defs/place"}, "struct<zip: string!>"),
        ({"enum": ["A", "B c"]}, "string"),
        ({"type": "string", "enum": ["A", "B"]}, "enum(A,B)"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "map<string,boolean>"),
    ],
)
def test_json_schemas_of_others_have_columns(form: object, kind: str) -> None:
    place = {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}
    whole = {"properties": {"a": form}, "$defs": {"place": place}}
    assert read_json_schema(json.dumps(whole), "").fields[0].kind == kind


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("[]", "is not the JSON schema of an object"),
        ('{"properties": {"a": true}}', "a: true says nothing of a type"),
        ('{"properties": {"a": {"type": ["string", "integer"]}}}', "it is of several types"),
        ('{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}', "several types has no column"),
        ('{"properties": {"a": {"$ref": "#/properties/a"}}}', "is within itself"),
        ('{"properties": {"a": {"$ref": "http://elsewhere"}}}', "is not in this text"),
        ('{"properties": {"a": {"type": "array"}}}', "has no column here"),
    ],
)
def test_what_of_json_schema_has_no_column_is_reported(text: str, reported: str) -> None:
    with pytest.raises(SchemaError, match=reported):
        read_json_schema(text, "file")
