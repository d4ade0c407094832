"""Avro: values in its JSON encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.schemas.avro import AvroCodec, read_avro
from sordini.schemas.codecs import Json, SchemaError, ValueRefused
from sordini.schemas.schema_files import read_schema
from tests.support.avro_values import schemas_with_values

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}


def codec(schema: Any) -> AvroCodec:
    return AvroCodec(schema)


@given(schemas_with_values())
def test_what_was_encoded_is_decoded_as_it_was(case: tuple[Any, Json]) -> None:
    schema, value = case
    made = codec(schema)
    encoded = made.encode(value)
    decoded = made.decode(encoded)
    assert json.dumps(decoded) == json.dumps(value)
    assert made.encode(decoded) == encoded


@given(schemas_with_values(), st.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused(case: tuple[Any, Json], data: bytes) -> None:
    made = codec(case[0])
    try:
        value = made.decode(data)
    except ValueRefused:
        return
    made.encode(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3, "$: 3 is not a record shop.Order"),
        ({}, "$: shop.Order needs the field 'id'"),
        ({"id": "3"}, "$.id: '3' is not a long"),
        ({"id": True}, "$.id: True is not a long"),
        ({"id": 2**63}, "$.id: 9223372036854775808 is not a long"),
        ({"id": 1, "ids": 2}, "$: shop.Order has no field 'ids'; there are id, note, raw, at, kind, next"),
        ({"id": 1, "note": "x"}, """$.note: 'x' is not a value of the union, which is null or {"string": ...}"""),
        ({"id": 1, "note": {"string": 3}}, "$.note.string: 3 is not a string"),
        ({"id": 1, "raw": "\u20ac"}, "$.raw: '\u20ac' is not bytes as text of ISO 8859-1"),
        ({"id": 1, "kind": "C"}, "$.kind: 'C' is not one of A, B"),
        ({"id": 1, "next": {"shop.Order": {"id": None}}}, "$.next.shop.Order.id: None is not a long"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(value: Json, why: str) -> None:
    with pytest.raises(ValueRefused) as refused:
        codec(ORDER).encode(value)
    assert str(refused.value) == why


def test_fields_with_a_default_may_be_left_out() -> None:
    made = codec(ORDER)
    whole = {"id": 1, "note": None, "raw": "\u00ff", "at": 0, "kind": "A", "next": None}
    assert made.decode(made.encode({"id": 1})) == whole


def test_the_branch_of_a_union_is_kept_where_records_have_equal_fields() -> None:
    fields = [{"name": "x", "type": "int"}]
    made = codec([{"type": "record", "name": name, "fields": fields} for name in "AB"])
    assert [made.decode(made.encode({name: {"x": 3}})) for name in "AB"] == [{"A": {"x": 3}}, {"B": {"x": 3}}]


def test_the_default_of_a_union_is_of_its_first_branch() -> None:
    field = {"name": "x", "type": ["float", "double"], "default": 1.5}
    made = codec({"type": "record", "name": "R", "fields": [field]})
    assert made.decode(made.encode({})) == {"x": {"float": 1.5}}


@pytest.mark.parametrize("value", [{"map": {"x": 3}}, {"R": {"x": 3}}, {"map": {}}, {"array": [1]}, {"Q": {}}])
def test_a_map_beside_records_in_a_union_stays_a_map(value: Json) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    empty = {"type": "record", "name": "Q", "fields": []}
    made = codec([record, empty, {"type": "array", "items": "int"}, {"type": "map", "values": "int"}])
    assert made.decode(made.encode(value)) == value


@pytest.mark.parametrize("kind", ["float", "double"])
def test_numbers_that_json_lacks_are_texts(kind: str) -> None:
    made = codec(kind)
    assert [made.decode(made.encode(text)) for text in ("NaN", "Infinity", "-Infinity")] == [
        "NaN",
        "Infinity",
        "-Infinity",
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it ends too early"),
        (b"\x02", "it ends too early"),
        (b"\x80", "it ends too early"),
        (b"\x02\x00\x00\x00\x00\x00!", "1 bytes are left"),
    ],
)
def test_bytes_of_another_length_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueRefused, match=why):
        codec(ORDER).decode(data)


def test_types_that_are_only_named_are_in_files_beside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "money.avsc").write_text('{"type": "fixed", "name": "money", "size": 2}')
    (tmp_path / "sale.avsc").write_text(
        '{"type": "record", "name": "Sale", "fields": [{"name": "sum", "type": "money"}, {"name": "tip", "type": ["null", "money"]}]}'
    )
    made = read_avro(tmp_path / "sale.avsc")
    value = {"sum": "ab", "tip": {"money": "cd"}}
    assert (made.encode(value), made.decode(made.encode(value))) == (b"ab\x02cd", value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not a schema of Avro"),
        ('{"type": "recrd"}', "type recrd is neither in it nor in a file beside it|not a schema of Avro"),
        ('{"type": "record", "name": "A", "fields": [{"name": "x", "type": "Nowhere"}]}', "Nowhere"),
    ],
)
def test_a_file_without_a_schema_is_refused_with_its_name(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "bad.avsc").write_text(text)
    with pytest.raises(SchemaError, match=f"bad.avsc.*({why})"):
        read_avro(tmp_path / "bad.avsc")


@pytest.mark.parametrize(
    "items", ['"null"', '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "null"}]}']
)
def test_an_array_whose_items_take_no_bytes_is_refused(tmp_path: Path, items: str) -> None:
    """A record of ten bytes would be a list of quintillions."""
    (tmp_path / "bomb.avsc").write_text(f'{{"type": "array", "items": {items}}}')
    with pytest.raises(SchemaError, match=r"bomb.avsc: not a schema of Avro: the items of an array take no bytes"):
        read_avro(tmp_path / "bomb.avsc")


def test_records_within_themselves_are_read() -> None:
    fields = [{"name": "number", "type": "int"}, {"name": "inner", "type": {"type": "array", "items": "R"}}]
    made = codec({"type": "record", "name": "R", "fields": fields})
    value = {"number": 1, "inner": [{"number": 2, "inner": []}]}
    assert made.decode(made.encode(value)) == value


def test_a_file_that_cannot_be_read_is_refused_as_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"no.avsc: no such file or directory"):
        read_schema("avro", str(tmp_path / "no.avsc"))


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
THROUGH_ANOTHER = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {
            "name": "branches",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Branch", "fields": [{"name": "tree", "type": "Tree"}]},
            },
        }
    ],
}
ENDLESS = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": "Node"}]}


@pytest.mark.parametrize(
    ("schema", "data"),
    [(NODE, b"\x02" * 300_000 + b"\x00"), (THROUGH_ANOTHER, b"\x02" * 300_000), (ENDLESS, b"")],
    ids=["in itself", "through another type", "without an end"],
)
def test_a_value_that_is_nested_without_measure_is_refused_and_does_not_end_the_process(
    schema: Any, data: bytes
) -> None:
    made = codec(schema)
    for read in (made.decode, made.check):
        with pytest.raises(ValueRefused, match="nested too deeply"):
            read(data)


def test_a_value_of_a_type_that_is_within_itself_is_decoded() -> None:
    value: Json = None
    for _ in range(100):
        value = {"Node": {"next": value}}
    made = codec(NODE)
    encoded = made.encode({"next": value})
    assert encoded == b"\x02" * 100 + b"\x00"
    assert made.decode(encoded) == {"next": value}
