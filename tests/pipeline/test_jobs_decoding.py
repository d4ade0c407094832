"""Record values in every decode mode: which values become rows, and what is reported of the others."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import struct
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from sordini.pipeline.schemas import decoding
from sordini.pipeline.schemas.avro import avro_text, to_avro
from sordini.pipeline.schemas.fields import Field, Schema, schema_of
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.values.plain_values import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.schemas.decoding import Decoded

EVENT = schema_of(
    "event",
    {
        "a": "string!",
        "n": "int",
        "l": "long",
        "d": "double",
        "b": "boolean",
        "day": "date",
        "event_time": "timestamp!",
        "ms": "timestamp_ms",
        "bin": "binary",
        "tags": "list<string>",
    },
)
EIGHT = dt.datetime(2026, 11, 22, 8, tzinfo=dt.UTC)
GOOD = {
    "a": "x",
    "n": 1,
    "l": 2**40,
    "d": 1.5,
    "b": True,
    "day": "2026-11-22",
    "event_time": "2026-11-22T08:00:00Z",
    "ms": 1795334400000,
    "bin": "aGk=",
    "tags": ["p", "q"],
}
ROW = ("x", 1, 2**40, 1.5, True, dt.date(2026, 11, 22), 1795334400, 1795334400, bytearray(b"hi"), ["p", "q"])


def records(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    frame = spark.createDataFrame(
        [(b"k", value, "t", 0, offset) for offset, value in enumerate(values)],
        "key binary, value binary, topic string, partition int, offset bigint",
    )
    return frame.selectExpr("*", "timestamp'2026-11-22 00:00:00' as timestamp")


def outcome(decoded: Decoded) -> list[Any]:
    """For each record its row, or the reason why there is none."""
    seconds = ["unix_seconds(event_time) as event_time", "unix_seconds(ms) as ms"]
    names = [field.name for field in EVENT.fields]
    shown = [next((text for text in seconds if text.endswith(f"as {name}")), name) for name in names]
    found = {row[0]: tuple(row)[1:] for row in decoded.rows().selectExpr("offset", *shown).collect()}
    dead = {row.offset: row.reason for row in decoded.dead_letters().collect()}
    assert not found.keys() & dead.keys()
    return [one for _, one in sorted((found | dead).items())]


def text(**changed: object) -> bytes:
    return json.dumps({**GOOD, **changed}).encode()


def test_json_becomes_rows_and_each_value_that_does_not_fit_tells_why(spark: SparkSession) -> None:
    cases: list[tuple[bytes | None, Any]] = [
        (text(), ROW),
        (text(extra={"deep": [1]}), ROW),
        (b'{"a":"x","event_time":"2026-11-22T10:00:00+02:00"}', ("x", *[None] * 5, 1795334400, None, None, None)),
        (text(n="five"), "n is not an int"),
        (text(n=2**40, day="soon"), "n is not an int, day is not a date"),
        (text(tags="p"), "tags is not a list<string>"),
        (text(event_time="yesterday"), "event_time is not a timestamp"),
        (text(event_time="+20261-01-01T00:00:00Z"), "event_time is not a timestamp"),
        (text(ms=2**60), "ms is not a timestamp_ms"),
        (b'{"a":"x"}', "event_time is missing"),
        (b"{}", "a is missing, event_time is missing"),
        (b'{"a":', "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"5", "not a JSON object"),
        (b"", "not a JSON object"),
        (b"\xff\xfe", "not UTF-8"),
        (None, "the value is null"),
    ]
    decoded = decoding.from_json(records(spark, [value for value, _ in cases]), EVENT, ("key",))
    assert outcome(decoded) == [expected for _, expected in cases]


def test_pairs_become_rows_and_each_value_that_does_not_fit_tells_why(spark: SparkSession) -> None:
    cases: list[tuple[bytes | None, Any]] = [
        (
            (
                b"b=true&a=x&n=1&l=1099511627776&d=1.5&day=2026-11-22&event_time=2026-11-22T08%3A00%3A00Z"
                b"&ms=1795334400000&bin=aGk%3D&tags=p,q"
            ),
            ROW,
        ),
        (b"a=x&event_time=2026-11-22T08:00:00Z&n=&xa=9", ("x", *[None] * 5, 1795334400, None, None, None)),
        (b"a=one&a=two&event_time=2026-11-22T08:00:00Z", ("one", *[None] * 5, 1795334400, None, None, None)),
        (b"a=x&event_time=2026-11-22T08:00:00Z&n=1.5", "n is not an int"),
        (b"a=x&event_time=2026-11-22T08:00:00Z&ms=99999999999999999999", "ms is not a timestamp_ms"),
        (b"xa=9&event_time=2026-11-22T08:00:00Z", "a is missing"),
        (b"nothing", "no name=value in it"),
        (b"\xff\xfe=", "not UTF-8"),
        (None, "the value is null"),
    ]
    decoded = decoding.from_pairs(records(spark, [value for value, _ in cases]), EVENT, ())
    assert outcome(decoded) == [expected for _, expected in cases]


@pytest.mark.slow
def test_numbers_are_dates_and_timestamps_in_spark_as_they_are_in_python(spark: SparkSession) -> None:
    kinds = {"days": "date_days", "ms": "timestamp_ms", "us": "timestamp_us", "ns": "timestamp_ns"}
    bounds = [FIRST_DAY, LAST_DAY, FIRST_US // 1000, LAST_US // 1000, FIRST_US, LAST_US, -(2**63), 2**63 - 1]
    numbers = [0, -1, 999, -999, 1000, -1000, -1001, *(bound + more for bound in bounds for more in (-1, 0, 1))]
    for name, kind in kinds.items():
        schema = schema_of("numbers", {name: kind})
        values = [json.dumps({name: number}).encode() for number in numbers]
        read = decoding.json_rows(schema)
        expected = [row[0] if row else reason for row, reason in map(read, values)]
        decoded = decoding.from_json(records(spark, list(values)), schema, ())
        shown = f"unix_date({name})" if kind == "date_days" else f"unix_micros({name})"
        found = {row[0]: row[1] for row in decoded.rows().selectExpr("offset", shown).collect()}
        found |= {row.offset: row.reason for row in decoded.dead_letters().collect()}
        assert [found[offset] for offset in range(len(numbers))] == expected


@pytest.mark.slow
def test_other_separators_stand_for_themselves(spark: SparkSession) -> None:
    frame = records(spark, [b"a:50%25|event_time:2026-11-22T08:00:00Z|n:3"])
    [row] = outcome(decoding.from_pairs(frame, EVENT, (), between="|", equals=":"))
    assert row[:2] == ("50%25", 3)


def avro(record: dict[str, Any], schema: dict[str, Any], schema_id: int) -> bytes:
    buffer = io.BytesIO()
    buffer.write(struct.pack(">bI", 0, schema_id))
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), record)
    return buffer.getvalue()


def test_avro_behind_a_schemas_id_becomes_rows_and_each_value_that_does_not_fit_tells_why(spark: SparkSession) -> None:
    times = {"type": "long", "logicalType": "timestamp-micros"}
    older = {
        "type": "record",
        "name": "of_long_ago",
        "fields": [{"name": "a", "type": "string"}, {"name": "event_time", "type": times}],
    }
    without_a = {"type": "record", "name": "c", "fields": [{"name": "event_time", "type": times}]}
    numbers = {**older, "fields": [older["fields"][0], {"name": "event_time", "type": "long"}]}
    full = {**GOOD, "day": dt.date(2026, 11, 22), "event_time": EIGHT, "ms": EIGHT, "bin": b"hi"}
    good = avro(full, to_avro(EVENT), 1)
    cases: list[tuple[bytes | None, str | tuple[Any, ...]]] = [
        (good, ROW),
        (avro({"a": "x", "event_time": EIGHT}, older, 2), ("x", *[None] * 5, 1795334400, None, None, None)),
        (avro({"event_time": EIGHT}, without_a, 3), "a is missing"),
        (good[:-3], "not of schema 1: not Avro of this schema: it ends too early"),
        (good + b"!", "not of schema 1: not Avro of this schema: 1 bytes are left"),
        (avro({"a": "x", "event_time": 2**62}, numbers, 2), "event_time is not a timestamp"),
        (b"\0\0", "too short for the id of a schema"),
        (b"{}aaaa", "begins with byte 123, not 0: there is no schema id"),
        (struct.pack(">bI", 0, 9), "was written with schema 9, which the job does not name"),
        (None, "the value is null"),
    ]
    writers = {1: avro_text(EVENT), 2: json.dumps(older), 3: json.dumps(without_a)}
    registered = RegisteredSchemas(tuple(writers.items()))
    decoded = decoding.from_schema_id(records(spark, [value for value, _ in cases]), EVENT, (), registered)
    for found, (_, expected) in zip(outcome(decoded), cases, strict=True):
        assert found[: len(expected)] == expected if isinstance(expected, str) else found == expected


@pytest.mark.slow
def test_a_dead_letter_has_the_original_bytes_and_their_place(spark: SparkSession) -> None:
    decoded = decoding.from_json(records(spark, [text(), b"\x00\xff"]), EVENT, ())
    [letter] = decoded.dead_letters().collect()
    assert letter.asDict() == {
        "reason": "not UTF-8",
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "timestamp": letter.timestamp,
        "key": bytearray(b"k"),
        "value": bytearray(b"\x00\xff"),
    }
    assert [row.offset for row in decoded.rows().collect()] == [0]


ORDER = Schema(
    "order",
    (
        Field("id", "uuid", is_required=True),
        Field("amount", "decimal(6,2)", sources=("$.payment.amounts[0]", "amount")),
        Field("lines", "list<struct<sku: string!, seen: list<timestamp_ntz>>>"),
        Field("prices", "map<string,float>"),
        Field("opens", "time"),
        Field("timestamp", "long"),
    ),
)


def test_nested_kinds_are_columns_of_spark_and_the_record_s_own_have_a_prefix(spark: SparkSession) -> None:
    order = {
        "id": "123e4567-E89B-12d3-a456-426614174000",
        "payment": {"amounts": [12.5]},
        "lines": [{"sku": "a", "seen": ["2026-11-22T08:00:00", None]}],
        "prices": {"x": 0.5},
        "opens": "08:30",
        "timestamp": 7,
    }
    values = [json.dumps(order).encode(), json.dumps({**order, "lines": [{"seen": []}]}).encode(), None]
    decoded = decoding.from_json(records(spark, values), ORDER, ("key",), "kafka_")
    [row] = decoded.rows().collect()
    assert row.asDict(recursive=True) == {
        "id": "123e4567-e89b-12d3-a456-426614174000",
        "amount": decimal.Decimal("12.50"),
        "lines": [{"sku": "a", "seen": [EIGHT.replace(tzinfo=None), None]}],
        "prices": {"x": 0.5},
        "opens": dt.time(8, 30),
        "timestamp": 7,
        "kafka_topic": "t",
        "kafka_partition": 0,
        "kafka_offset": 0,
        "kafka_timestamp": row.kafka_timestamp,
        "kafka_key": bytearray(b"k"),
    }
    assert [letter.reason for letter in decoded.dead_letters().collect()] == [
        "lines[0].sku is missing",
        "the value is null",
    ]


def test_enums_and_floats_are_checked_by_spark_as_in_python(spark: SparkSession) -> None:
    schema = schema_of("e", {"state": "enum(NEW,PAID)!", "ratio": "float"})
    texts = [
        {"state": "NEW", "ratio": 0.5},
        {"state": "GONE"},
        {"state": "PAID", "ratio": 1e39},
        {"ratio": 1},
        {"state": "NEW", "ratio": "x"},
    ]
    expected = [
        ("NEW", 0.5),
        "state is none of NEW, PAID",
        "ratio is not a float",
        "state is missing",
        "ratio is not a float",
    ]
    values = [json.dumps(text).encode() for text in texts]
    decoded = decoding.from_json(records(spark, values), schema, ())
    found = {row.offset: (row.state, row.ratio) for row in decoded.rows().collect()}
    dead = {row.offset: row.reason for row in decoded.dead_letters().collect()}
    assert [one for _, one in sorted((found | dead).items())] == expected
    read = decoding.json_rows(schema)
    assert [row[1] or tuple(row[0] or ()) for row in map(read, values)] == expected
    pairs = decoding.from_pairs(records(spark, [b"state=PAID&ratio=0.5", b"state=X&ratio=1e39"]), schema, ())
    assert [(row.state, row.ratio) for row in pairs.rows().collect()] == [("PAID", 0.5)]
    assert [row.reason for row in pairs.dead_letters().collect()] == [
        "state is none of NEW, PAID, ratio is not a float"
    ]
