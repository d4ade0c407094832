"""Values and columns: what is written by a schema is read by it, from JSON and from Avro; all else has a reason."""

from __future__ import annotations

import io
import json
import os
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.pipeline.schemas.avro import avro_text, to_avro
from sordini.pipeline.schemas.decoding import json_rows, pair_rows
from sordini.pipeline.schemas.fields import Field, Schema, schema_of
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.values.row_reader import REASON, columns
from tests.support.pipeline_schemas import SCHEMAS, rows_of, to_avro_value, to_json, without_sources

EXAMPLES = 500 if os.environ.get("SORDINI_PIPELINE") == "all" else 20


def in_columns(schema: Schema, read: Any, value: bytes) -> dict[str, Any]:
    """One value's columns, and its reason."""
    [row] = columns(pa.array([value], pa.binary()), schema, read).to_pylist()
    return dict(row)


def framed(schema: Schema, value: dict[str, Any], schema_id: int = 1) -> bytes:
    buffer = io.BytesIO()
    buffer.write(struct.pack(">bI", 0, schema_id))
    row = {field.name: to_avro_value(field.type, value[field.name]) for field in schema.fields}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(to_avro(schema)), row)
    return buffer.getvalue()


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_what_json_says_of_a_row_is_the_row(data: st.DataObject) -> None:
    schema = without_sources(data.draw(SCHEMAS))
    row = data.draw(rows_of(schema.fields))
    text = json.dumps({field.name: to_json(field.type, row[field.name]) for field in schema.fields})
    assert in_columns(schema, json_rows(schema), text.encode()) == {**row, REASON: None}


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_what_fastavro_writes_of_a_row_is_the_row(data: st.DataObject) -> None:
    schema = without_sources(data.draw(SCHEMAS))
    row = data.draw(rows_of(schema.fields).map(without_nulls))
    read = RegisteredSchemas(((1, avro_text(schema)),)).reader(schema)
    assert in_columns(schema, read, framed(schema, row)) == {**row, REASON: None}


def without_nulls(row: Any) -> Any:
    """The elements of Avro's lists and maps are not null, as we write its schemas."""
    if isinstance(row, dict):
        return {name: without_nulls(item) for name, item in row.items()}
    if isinstance(row, list):
        return [without_nulls(item) for item in row if item is not None and not _is_null_pair(item)]
    if isinstance(row, tuple):
        return tuple(map(without_nulls, row))
    return row


def _is_null_pair(item: Any) -> bool:
    return isinstance(item, tuple) and item[1] is None


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("9" * 400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_any_json_is_a_row_or_a_reason_that_names_a_field(data: st.DataObject) -> None:
    schema = without_sources(data.draw(SCHEMAS))
    value = data.draw(st.dictionaries(st.sampled_from([field.name for field in schema.fields]), ANY_JSON))
    text = json.dumps(value)
    found = in_columns(schema, json_rows(schema), text.encode())
    names = [field.name for field in schema.fields]
    reason = found[REASON]
    assert reason is None or reason == "not JSON" or any(reason.startswith(name) for name in names)
    assert reason is None or all(found[name] is None for name in names)


@given(st.binary(max_size=40), SCHEMAS)
@settings(max_examples=EXAMPLES)
def test_any_bytes_behind_an_id_are_a_row_or_a_reason(data: bytes, schema: Schema) -> None:
    schema = without_sources(schema)
    read = RegisteredSchemas(((1, avro_text(schema)),)).reader(schema)
    assert set(in_columns(schema, read, b"\0\0\0\0\1" + data)) == {*(field.name for field in schema.fields), REASON}


ORDER = Schema(
    "order",
    (
        Field("id", "uuid", is_required=True),
        Field("amount", "decimal(6,2)"),
        Field("state", "enum(NEW,PAID)"),
        Field("lines", "list<struct<sku: string!, price: decimal(6,2), seen: list<timestamp>>>"),
        Field("prices", "map<string,float>"),
        Field("opens", "time"),
        Field("at", "timestamp_ntz"),
        Field("zip", "int", sources=("$.address.codes[1]", "postcode")),
    ),
)
ID = "123E4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "id is missing"),
        ({"id": "7"}, "id is not an uuid"),
        ({"id": ID, "amount": 12345.678}, "amount is not a decimal(6,2)"),
        ({"id": ID, "amount": "1e999999999"}, "amount is not a decimal(6,2)"),
        ({"id": ID, "amount": 10**400}, "amount is not a decimal(6,2)"),
        ({"id": ID, "amount": True}, "amount is not a decimal(6,2)"),
        ({"id": ID, "state": "GONE"}, "state is none of NEW, PAID"),
        ({"id": ID, "lines": {}}, "lines is not a list"),
        ({"id": ID, "lines": [{"sku": "a"}, {}]}, "lines[1].sku is missing"),
        ({"id": ID, "lines": [{"sku": "a", "price": "dear"}]}, "lines[0].price is not a decimal(6,2)"),
        ({"id": ID, "lines": [{"sku": "a", "seen": [None, "now"]}]}, "lines[0].seen[1] is not a timestamp"),
        ({"id": ID, "prices": {"a b": 1e39}}, "prices['a b'] is not a float"),
        ({"id": ID, "opens": "24:00"}, "opens is not a time"),
        ({"id": ID, "at": "2026-11-22T08:00:00Z"}, "at is not a timestamp_ntz"),
        ({"id": ID, "postcode": 1.5, "state": 3}, "state is none of NEW, PAID, zip is not an int"),
        ({"id": ID, "lines": [{"sku": "\ud800"}]}, "not JSON"),
    ],
)
def test_a_value_that_does_not_fit_has_a_reason_with_its_path(value: dict[str, Any], reason: str) -> None:
    found = in_columns(ORDER, json_rows(ORDER), json.dumps(value).encode())
    assert found[REASON] == reason
    assert {item for name, item in found.items() if name != REASON} == {None}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"id": NaN}', "not JSON"),
        (b'{"amount": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b"[1]", "not a JSON object"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_text_that_is_no_json_has_a_reason(text: bytes, reason: str) -> None:
    assert in_columns(ORDER, json_rows(ORDER), text)[REASON] == reason


def test_a_field_is_read_from_the_first_of_its_sources_that_is_there() -> None:
    read = json_rows(ORDER)
    address: dict[str, Any] = {"address": {"codes": [1, 2]}}
    cases: list[tuple[dict[str, Any], int | None]] = [
        ({**address, "postcode": 3}, 2),
        ({"address": {"codes": [1]}, "postcode": 3}, 3),
        ({"address": [], "postcode": 3}, 3),
        ({"zip": 4}, None),
    ]
    for value, expected in cases:
        assert in_columns(ORDER, read, json.dumps({"id": ID, **value}).encode())["zip"] == expected


def test_pairs_have_the_kinds_that_are_texts() -> None:
    schema = schema_of(
        "p",
        {"n": "decimal(5,1)", "f": "float", "t": "time", "u": "uuid", "e": "enum(A,B)", "l": "list<decimal(3,1)>"},
    )
    read = pair_rows(schema, "&", "=")
    good = in_columns(schema, read, f"n=12.50&f=1.5&t=08:00&u={ID}&e=B&l=1.5,2&x=%zz".encode())
    assert [str(item) for item in good.values()] == [
        "12.5", "1.5", "08:00:00", ID.lower(), "B", "[Decimal('1.5'), Decimal('2.0')]", "None",
    ]  # fmt: skip
    assert in_columns(schema, read, b"n=12.55&e=C&l=1,x")[REASON] == (
        "n is not a decimal(5,1), e is none of A, B, l[1] is not a decimal(3,1)"
    )
    assert in_columns(schema, read, b"f=%zz&n=")[REASON] is None


def test_columns_take_what_avro_lets_a_reader_take_and_no_more() -> None:
    schema = schema_of(
        "e", {"a": "long", "b": "double", "c": "float", "d": "decimal(6,3)", "s": "string", "m": "timestamp"}
    )
    written = {
        "type": "record",
        "name": "w",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", "float", "long"]},
            {"name": "c", "type": "double"},
            {"name": "d", "type": {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "s", "type": "bytes"},
            {"name": "m", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }  # fmt: skip
    read = RegisteredSchemas(((3, json.dumps(written)),)).reader(schema)

    def row(**values: Any) -> dict[str, Any]:
        plain = {**written, "fields": [dict(field) for field in written["fields"]]}  # type: ignore[attr-defined]
        plain["fields"][3]["type"] = {"type": "fixed", "name": "F", "size": 4}
        plain["fields"][5]["type"] = "long"
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(plain), values)
        return in_columns(schema, read, b"\0\0\0\0\3" + buffer.getvalue())

    good = {"a": 1, "b": 7, "c": 1.5, "d": (150).to_bytes(4, "big"), "s": b"x", "m": 1000}
    found = row(**good)
    assert (found["a"], found["b"], str(found["d"]), found["s"], found[REASON]) == (1, 7.0, "1.500", "x", None)
    bad = row(**{**good, "c": 1e39, "d": (10**6).to_bytes(4, "big"), "s": b"\xff", "m": 2**62})
    assert bad[REASON] == ("c is not a float, d is not a decimal(6,3), s is not a string, m is not a timestamp")
