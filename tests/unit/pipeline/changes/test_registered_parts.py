"""What is read of envelopes, plain records and keys behind a schema's id: each part by itself, with its own reason."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pytest

from sordini.pipeline.changes.keys import Key, keys_of
from sordini.pipeline.changes.registered_parts import Parts, envelopes, plain_rows, record_keys
from sordini.pipeline.schemas.fields import Field, Schema, schema_of
from sordini.pipeline.schemas.registered import RegisteredSchemas
from tests.support.debezium_avro import connect, envelope, framed, key_schema, optional, value_schema

PERSON = value_schema([{"name": "id", "type": "long"}, {"name": "name", "type": "string"}, optional("age", "int")])
KEY = key_schema([{"name": "id", "type": "long"}])
TRANSACTIONS = json.dumps(
    {
        "type": "record",
        "name": "TransactionMetadataValue",
        "fields": [{"name": "status", "type": "string"}, {"name": "id", "type": "string"}],
    }
)
REGISTERED = RegisteredSchemas(((1, PERSON), (2, KEY), (3, TRANSACTIONS), (4, '"long"'), (5, '"string"')))
SCHEMA = schema_of("people", {"id": "long", "name": "string", "age": "int"})
TAKEN = (
    ("source.lsn", Field("lsn", "long")),
    ("op", Field("op", "string")),
    ("source.scn", Field("scn", "long")),
    ("ts_ms", Field("at", "timestamp_ms")),
    ("transaction.id", Field("tx", "string")),
)
ADA = {"id": 1, "name": "Ada", "age": None}


def parts(value: object, schema_id: int = 1, schema: str = PERSON, columns: Schema = SCHEMA) -> Parts:
    return envelopes(REGISTERED, columns, TAKEN)(framed(schema, value, schema_id))


def test_an_envelope_has_its_parts_and_its_columns_have_their_own_types() -> None:
    found = parts(envelope("u", 7, {**ADA, "age": 30}, ADA, transaction={"id": "tx", "total_order": 1}))
    assert found.op == "u"
    assert found.before == ([1, "Ada", 30], None)
    assert found.after == ([1, "Ada", None], None)
    assert list(found.taken) == [7, "u", 7, 1_764_000_000_000_000, "tx"]
    assert found.unreadable is None


def test_a_key_in_before_is_known_whatever_else_does_not_fit_there() -> None:
    """A row whose key changes is deleted under the former one, as a deletion is under its key."""
    narrow = schema_of("people", {"id": "long", "name": "string", "age": "date"})
    found = parts(envelope("u", 7, {**ADA, "id": 2, "age": 2_000_000_000}, ADA), columns=narrow)
    assert found.before == ([2, "Ada", None], "age is not a date")
    assert found.after == ([1, "Ada", None], None)


def test_a_part_that_does_not_fit_has_a_reason_of_its_own() -> None:
    narrow = schema_of("people", {"id": "long", "name": "int", "age": "date"})
    found = parts(envelope("u", None, {**ADA, "age": 3}, ADA), columns=narrow)
    assert found.before == ([1, None, None], "name is not an int, age is not a date")
    assert found.after == (None, "name is not an int")
    assert found.has_after
    assert list(found.taken) == [None, "u", None, 1_764_000_000_000_000, None]


def test_a_transaction_has_a_status_and_no_op() -> None:
    found = parts({"status": "BEGIN", "id": "7"}, 3, TRANSACTIONS)
    assert (found.op, found.status, found.has_after, found.unreadable) == (None, "BEGIN", False, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\0\0\0\0\x09rest", "was written with schema 9, which the job does not name"),
        (b"\0\0", "too short for the id of a schema"),
        (b'{"op": "c"}', "begins with byte 123, not 0: there is no schema id"),
        (framed('"long"', 7, 4), "not a record, so it has no fields (schema 4)"),
        (b"\0\0\0\0\1\xff", "not of schema 1: not Avro of this schema: it ends too early"),
    ],
)
def test_a_value_that_cannot_be_read_is_one_reason(value: bytes, reason: str) -> None:
    found = envelopes(REGISTERED, SCHEMA, TAKEN)(value)
    assert found.unreadable is not None
    assert found.unreadable.startswith(reason)
    assert plain_rows(REGISTERED, SCHEMA)(value).after[1] == found.unreadable


ID, PLACED = Key("id", (("id",),)), Key("part", (("part",),))
TEXT_KEY = schema_of("stock", {"sku": "string", "count": "int"})


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (framed(KEY, {"id": 5}, 2), ([5, None, None], None)),
        (framed('"long"', 5, 4), ([5, None, None], None)),
        (framed('"string"', "five", 5), (None, "id is not a long")),
        (b'{"id": 5}', ([5, None, None], None)),
        (b'{"schema": {}, "payload": {"id": 5}}', ([5, None, None], None)),
        (b'{"schema": {}, "payload": 5}', ([5, None, None], None)),
        (b"5", ([5, None, None], None)),
        (b"\0\0\0\0\x09x", (None, "the record's key was written with schema 9, which the job does not name")),
        (b"\xff", (None, "the record's key is neither behind the id of a schema nor UTF-8")),
        (b"{}", ([None, None, None], None)),
    ],
)
def test_a_record_s_key_is_a_record_or_a_single_value_with_or_without_a_schema(key: bytes, found: object) -> None:
    assert record_keys(REGISTERED, SCHEMA, [ID])(key) == found


@pytest.mark.parametrize(("key", "sku"), [(b"a", "a"), (b'"a"', "a"), (b"007", "007"), (b"7", "7"), (b"{a", "{a")])
def test_a_key_that_is_a_text_stays_the_text_that_it_is(key: bytes, sku: str) -> None:
    assert record_keys(REGISTERED, TEXT_KEY, [Key("sku", (("sku",),))])(key) == ([sku, None], None)


def test_a_single_value_is_no_key_of_several_columns() -> None:
    read = record_keys(REGISTERED, SCHEMA, [ID, PLACED])
    assert read(framed('"long"', 5, 4)) == (
        None,
        "the record's key is a single value, and the table has the keys id, part",
    )


def test_a_key_is_where_its_field_is_read_from() -> None:
    schema = Schema("s", (Field("id", "long", sources=("$.a.b", "number")), Field("x", "int")))
    [key] = keys_of(["id"], schema)
    assert key.json_paths == ("$.a.b", "$.number")
    assert key.around == ('{"a":{"b":', "}}")
    assert not key.is_text
    assert keys_of(["sku"], TEXT_KEY) == (Key("sku", (("sku",),), is_text=True),)
    assert keys_of(["made_by_a_transform"], schema) == (Key("made_by_a_transform", (("made_by_a_transform",),)),)


TYPED = value_schema(
    [
        {"name": "id", "type": "long"},
        optional("day", connect("int", "io.debezium.time.Date")),
        optional("micro", connect("long", "io.debezium.time.MicroTimestamp")),
        optional("milli", connect("long", "io.debezium.time.Timestamp")),
        optional("nano", connect("long", "io.debezium.time.NanoTimestamp")),
        optional("zoned", connect("string", "io.debezium.time.ZonedTimestamp")),
        optional("opens", connect("long", "io.debezium.time.MicroTime")),
        optional("ident", connect("string", "io.debezium.data.Uuid")),
        optional("state", connect("string", "io.debezium.data.Enum")),
        optional(
            "price",
            {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": 64,
                "scale": 2,
                "connect.name": "org.apache.kafka.connect.data.Decimal",
            },
        ),
    ]
)


def test_names_of_debezium_and_of_kafka_connect_say_what_numbers_and_texts_are() -> None:
    from sordini.pipeline.schemas.registered_columns import is_envelope, names_within, schema_of_source, without_times
    from sordini.schemas.registered.types import SchemaSource, SchemaType

    source = SchemaSource(SchemaType.AVRO, TYPED, (), {})
    schema = schema_of_source(source, "typed", "after")
    assert {field.name: field.kind for field in schema.fields} == {
        "id": "long",
        "day": "date",
        "micro": "timestamp",
        "milli": "timestamp",
        "nano": "timestamp",
        "zoned": "timestamp",
        "opens": "time",
        "ident": "uuid",
        "state": "string",
        "price": "decimal(38,2)",
    }
    assert is_envelope(source)
    assert names_within(source, "source") == {"connector", "ts_ms", "lsn", "scn"}
    moment = dt.datetime(2026, 11, 22, 8, 0, 0, 250_000, tzinfo=dt.UTC)
    micros = (moment - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1)
    row: dict[str, Any] = {
        "id": 1,
        "day": 20_000,
        "micro": micros,
        "milli": micros // 1000,
        "nano": micros * 1000 + 999,
        "zoned": "2026-11-22T09:00:00.25+01:00",
        "opens": 3_600_000_000,
        "ident": "123E4567-e89b-12d3-a456-426614174000",
        "state": "new",
        "price": decimal.Decimal("12.50"),
    }
    registered = RegisteredSchemas(((1, TYPED),))
    found = envelopes(registered, schema, ())(framed(TYPED, envelope("c", 1, None, row), 1))
    expected = [1, 20_000, micros, micros, micros, micros, 3_600_000_000, row["ident"].lower(), "new", row["price"]]
    assert found.after == (expected, None)
    # Tables without a type for a time of the day have the number.
    times = schema_of_source(source, "typed", "after")
    assert {field.name: field.kind for field in without_times(times, SchemaType.AVRO).fields}["opens"] == "long"
    found = envelopes(registered, schema_of("t", {"opens": "long"}), ())(framed(TYPED, envelope("c", 1, None, row), 1))
    assert found.after == ([3_600_000_000], None)
    # What a job asks for instead: the numbers themselves, and a time without a zone.
    asked = schema_of("typed", {"micro": "long", "milli": "timestamp_ntz", "zoned": "string", "day": "int"})
    found = envelopes(registered, asked, ())(framed(TYPED, envelope("c", 1, None, row), 1))
    assert found.after == ([micros, micros, row["zoned"], 20_000], None)


def test_a_column_that_rows_of_an_envelope_cannot_have_is_named_with_its_reason() -> None:
    from sordini.pipeline.schemas.kinds import SchemaError
    from sordini.pipeline.schemas.registered_columns import schema_of_source
    from sordini.schemas.registered.types import SchemaSource, SchemaType

    # `after` has the type by its name, which `before` defines.
    written = value_schema([{"name": "id", "type": "long"}, {"name": "mixed", "type": ["int", "string"]}])
    with pytest.raises(SchemaError, match=r"^people: after: mixed: a union of several types has no column$"):
        schema_of_source(SchemaSource(SchemaType.AVRO, written, (), {}), "people", "after")


def test_a_decimal_of_a_variable_scale_is_one_where_the_job_asks_for_it() -> None:
    variable = {
        "type": "record",
        "name": "VariableScaleDecimal",
        "namespace": "io.debezium.data",
        "connect.name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    }
    written = value_schema([{"name": "id", "type": "long"}, optional("price", variable)])
    schema = schema_of("s", {"id": "long", "price": "decimal(9,3)"})
    read = envelopes(RegisteredSchemas(((1, written),)), schema, ())

    def price(scale: int, digits: int) -> object:
        row = {"id": 1, "price": {"scale": scale, "value": digits.to_bytes(4, "big", signed=True)}}
        return read(framed(written, envelope("c", 1, None, row), 1)).after

    assert price(2, -1250) == ([1, decimal.Decimal("-12.500")], None)
    assert price(4, 12501) == (None, "price is not a decimal(9,3)")
