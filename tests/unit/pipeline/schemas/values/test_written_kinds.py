"""Numbers and texts whose writer says what they are: a column takes them as that, or not at all."""

from __future__ import annotations

import base64
import decimal
import json
from typing import Any

import pytest

from sordini.pipeline.schemas.fields import Field, Schema, field_of, schema_of
from sordini.pipeline.schemas.kinds import StructOf
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.registered_forms import form_of
from sordini.schemas.registered.types import SchemaSource, SchemaType
from tests.support.debezium_avro import connect, framed, optional

DAY = 20_000
DAY_US = DAY * 86_400_000_000


def as_json(written: dict[str, Any], kind: str, value: Any) -> Any:
    """What a column of a kind has of a value by JSON Schema."""
    source = SchemaSource(SchemaType.JSON, json.dumps({"type": "object", "properties": {"x": written}}), (), {})
    schema = schema_of("s", {"x": kind})
    form = form_of(source, (0,), [field.type for field in schema.fields])
    row, reason = form.rows(schema).row(form.parse(json.dumps({"x": value}).encode()))
    return row[0] if row else reason


def as_avro(written: Any, kind: str, value: Any) -> Any:
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": written}]})
    row, reason = RegisteredSchemas(((1, text),)).reader(schema_of("s", {"x": kind}))(framed(text, {"x": value}, 1))
    return row[0] if row else reason


def number(title: str) -> dict[str, Any]:
    return {"type": "integer", "title": f"io.debezium.time.{title}"}


def unscaled(digits: int) -> str:
    return base64.b64encode(digits.to_bytes(4, "big", signed=True)).decode()


def digits(scale: int, kind: str = "string") -> dict[str, Any]:
    title = "org.apache.kafka.connect.data.Decimal"
    return {"type": kind, "title": title, "connect.parameters": {"scale": str(scale)}}


@pytest.mark.parametrize(
    ("title", "kind", "value", "found"),
    [
        ("Date", "date", DAY, DAY),
        ("Date", "date_days", DAY, DAY),
        ("MicroTimestamp", "timestamp_ms", DAY_US, DAY_US),
        ("NanoTimestamp", "timestamp_us", -1, -1),
        ("Timestamp", "timestamp_ntz", -1, -1000),
        ("Date", "int", DAY, DAY),
        ("Date", "timestamp_ms", DAY, "x is not a timestamp_ms"),
        ("Date", "timestamp_us", DAY, "x is not a timestamp_us"),
        ("Time", "timestamp_ms", 1, "x is not a timestamp_ms"),
        ("Timestamp", "date_days", 1, "x is not a date_days"),
        ("MicroTime", "date_days", 1, "x is not a date_days"),
        ("Timestamp", "time_ms", 1, "x is not a time_ms"),
    ],
)
def test_a_number_that_is_a_time_of_one_sort_is_none_of_another(title: str, kind: str, value: int, found: Any) -> None:
    assert as_json(number(title), kind, value) == found
    base = "int" if title in {"Date", "Time"} else "long"
    assert as_avro(connect(base, f"io.debezium.time.{title}"), kind, value) == found


@pytest.mark.parametrize(
    ("base", "logical", "kind", "value", "found"),
    [
        ("int", "date", "timestamp_ms", DAY, "x is not a timestamp_ms"),
        ("int", "time-millis", "timestamp_ms", 1, "x is not a timestamp_ms"),
        ("long", "timestamp-millis", "date_days", 1, "x is not a date_days"),
        ("long", "local-timestamp-micros", "time_us", 1, "x is not a time_us"),
        ("int", "date", "date_days", DAY, DAY),
        ("int", "date", "int", DAY, DAY),
        ("long", "timestamp-millis", "timestamp_us", 1, 1000),
        ("int", "time-millis", "time_ns", 1, 1000),
        ("long", "an-unknown-one", "timestamp_ms", 1, 1000),
    ],
)
def test_a_logical_type_says_the_same(base: str, logical: str, kind: str, value: int, found: Any) -> None:
    assert as_avro({"type": base, "logicalType": logical}, kind, value) == found


def test_numbers_and_decimals_within_others_are_what_their_writer_says() -> None:
    micros = number("MicroTimestamp")
    assert as_json({"type": "array", "items": micros}, "list<timestamp>", [1, None]) == [1, None]
    assert as_json({"type": "array", "items": micros}, "list<timestamp_ms>", [1]) == [1]
    assert as_json({"type": "object", "additionalProperties": micros}, "map<string,timestamp_ms>", {"k": 1}) == [
        ("k", 1)
    ]
    inner = {"type": "object", "properties": {"at": micros, "price": digits(2)}}
    value = {"at": 1, "price": unscaled(-1250)}
    # As columns of all versions have them: the latest unit, and the greatest scale.
    found = as_json(inner, "struct<at: timestamp_ms, price: decimal_base64(12,4)>", value)
    assert found == {"at": 1, "price": decimal.Decimal("-12.5000")}
    listed = {"type": "array", "items": inner}
    assert as_json(listed, "list<struct<at: date_days>>", [value]) == "x[0].at is not a date_days"


def test_a_decimal_is_read_in_the_form_of_its_writer() -> None:
    price = decimal.Decimal("12.5000")
    assert as_json(digits(2), "decimal(12,4)", unscaled(1250)) == price
    assert as_json(digits(2), "decimal_base64(12,4)", unscaled(1250)) == price
    assert as_json(digits(2, "number"), "decimal_base64(12,4)", 12.5) == price
    assert as_json({"type": "string"}, "decimal_base64(12,4)", unscaled(125000)) == price


def test_a_value_is_what_the_place_says_that_it_comes_from() -> None:
    """As where a field was replaced by one of another unit, and records have one of the two."""
    field = Field("x", "timestamp", sources=("new", "$.old.at", "older"))
    schema = Schema("s", (field,))
    milli, micro = ({"type": "long", "logicalType": f"timestamp-{unit}s"} for unit in ("milli", "micro"))
    inner = {"type": "record", "name": "o", "fields": [{"name": "at", "type": milli}]}
    fields = [optional("new", micro), optional("old", inner), optional("older", "string")]
    text = json.dumps({"type": "record", "name": "r", "fields": fields})
    read = RegisteredSchemas(((1, text),)).reader(schema)
    nothing = {"new": None, "old": None, "older": None}
    for value, found in (
        ({"new": 1, "old": {"at": 1}}, [1]),
        ({"old": {"at": 1}}, [1000]),
        ({"older": "1970-01-01T00:00:01Z"}, [1_000_000]),
        ({}, [None]),
    ):
        assert read(framed(text, nothing | value, 1)) == (found, None)
    source = {"type": "object", "properties": {"new": number("MicroTimestamp"), "older": number("Timestamp")}}
    form = form_of(SchemaSource(SchemaType.JSON, json.dumps(source), (), {}), (0,), [field.type])
    assert form.rows(schema).row({"new": None, "older": 1}) == ([1000], None)
    assert form.rows(schema).row({"new": 1, "older": 1}) == ([1], None)
    # What a path leads to has the kind of the first source that is said.
    assert form.rows(schema).row({"old": {"at": 1}, "older": 1}) == ([1], None)


def test_a_struct_s_fields_are_what_their_places_say() -> None:
    kind = StructOf((Field("at", "timestamp", sources=("new", "old")),))
    schema = Schema("s", (field_of("x", kind),))
    milli, micro = ({"type": "long", "logicalType": f"timestamp-{unit}s"} for unit in ("milli", "micro"))
    inner = {"type": "record", "name": "o", "fields": [optional("new", micro), optional("old", milli)]}
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": inner}]})
    read = RegisteredSchemas(((1, text),)).reader(schema)
    assert read(framed(text, {"x": {"new": None, "old": 1}}, 1)) == ([{"at": 1000}], None)
