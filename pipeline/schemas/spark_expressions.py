"""Flat schemas in Spark's own expressions, which decode several times as fast as Python: JSON, and pairs of texts.

A schema is flat if its fields are plain kinds and lists of them that Spark reads as we do, each under its own name. All
others are read in Python (`values/`); both have the same rules, and the same reasons.

Nothing here raises while Spark runs: casts are tried, JSON is read permissively (ANSI mode, Spark's default since 4.0,
would stop at the first bad cast). A simple condition separates rows and dead letters: the reason, whose expression is
many times larger, is only planned and computed for dead letters, and most batches have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.pipeline.schemas.column_types import spark_name
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.kinds import NUMBERED, Enum, Plain, text_of
from sordini.pipeline.schemas.values.misfit import misfit
from sordini.pipeline.schemas.values.plain_values import FIRST_DAY, FIRST_US, FLOAT_MAX, LAST_DAY, LAST_US

if TYPE_CHECKING:
    from pyspark.sql import Column

EVENT: Final = "_event"
VALUES: Final = "_values"
NO_FIT: Final = "does not fit the schema"
"""The reason where no other is found."""
NULL: Final = "the value is null"
_CORRUPT: Final = "_corrupt"
_FROM_NUMBERS: Final = frozenset({"date_days", "timestamp_ms", "timestamp_us", "timestamp_ns"})
_FLAT: Final = (
    frozenset({"string", "int", "long", "float", "double", "boolean", "date", "timestamp", "binary"}) | _FROM_NUMBERS
)


class Expressions(NamedTuple):
    """How Spark decodes a value; all but `event` may use the columns EVENT and VALUES."""

    event: Column
    """Of the column `value`."""
    values: dict[str, Column]
    """By field, of EVENT."""
    is_dead: Column
    reason: Column


def is_flat(schema: Schema) -> bool:
    """Whether Spark's expressions decode this schema."""
    return all(
        not field.sources
        and ((isinstance(field.element, Plain) and field.element.name in _FLAT) or (isinstance(field.type, Enum)))
        for field in schema.fields
    )


def json_expressions(schema: Schema) -> Expressions:
    """Values that are JSON objects. Names that are not in the schema are left out."""
    from pyspark.sql import functions as sql

    text, event = sql.col("value").cast("string"), sql.col(EVENT)
    shape = ", ".join(f"`{field.name}` {_read_as(field)}" for field in schema.fields)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = sql.from_json(text, f"{shape}, {_CORRUPT} string", options)
    values = {field.name: _from_json_value(field, event[field.name]) for field in schema.fields}
    # Spark replaces bytes that are not UTF-8 by other characters, so they are detected here.
    is_text = sql.coalesce(sql.is_valid_utf8(text) & sql.startswith(sql.ltrim(text), sql.lit("{")), sql.lit(False))

    def given(field: Field) -> Column:
        return sql.get_json_object(text, f"$.{field.name}").isNotNull()

    misfits = _misfits(schema.fields, given)
    reason = (
        sql.when(sql.col("value").isNull(), NULL)
        .when(~sql.is_valid_utf8(text), "not UTF-8")
        .when(~is_text | event.isNull(), "not a JSON object")
        .when(event[_CORRUPT].isNotNull() & sql.try_parse_json(text).isNull(), "not JSON")
        .otherwise(sql.coalesce(misfits, missing(schema.fields), sql.lit(NO_FIT)))
    )
    is_dead = any_of([~is_text, event.isNull(), event[_CORRUPT].isNotNull(), *_lost_values(schema, event)])
    return Expressions(parsed, values, is_dead, reason)


def pairs_expressions(schema: Schema, between: str, equals: str) -> Expressions:
    """Values that are text like `page=/home&member_id=7`, each name once (the first counts).

    Between `&` and `=`, as in a URL, percent encoding is undone. The elements of a list have commas between.
    """
    from pyspark.sql import functions as sql

    text, event = sql.col("value").cast("string"), sql.col(EVENT)
    found: list[Column] = []
    for field in schema.fields:
        ends, name = re.escape(between), re.escape(field.name + equals)
        # (?s): a value may have line breaks. It ends before the next separator.
        pattern = f"(?s)(?:^|{ends}){name}(.*?)(?={ends}|$)"
        value = sql.get(sql.regexp_extract_all(text, sql.lit(pattern), sql.lit(1)), sql.lit(0))
        decoded = sql.try_url_decode(value) if (between, equals) == ("&", "=") else value
        found.append(decoded.alias(field.name))
    values = {field.name: _from_text(field, event[field.name]) for field in schema.fields}

    def given(field: Field) -> Column:
        return event[field.name] != ""

    has_pairs = sql.coalesce(sql.is_valid_utf8(text) & sql.contains(text, sql.lit(equals)), sql.lit(False))
    reason = (
        sql.when(sql.col("value").isNull(), NULL)
        .when(~sql.is_valid_utf8(text), "not UTF-8")
        .when(~has_pairs, f"no name{equals}value in it")
        .otherwise(sql.coalesce(_misfits(schema.fields, given), missing(schema.fields)))
    )
    wrong = (given(field) & sql.col(VALUES)[field.name].isNull() for field in schema.fields)
    return Expressions(sql.struct(*found), values, any_of([~has_pairs, *wrong]), reason)


def _misfits(fields: Iterable[Field], given: Callable[[Field], Column]) -> Column:
    """The fields whose given values do not fit, in words; null if there are none."""
    from pyspark.sql import functions as sql

    reported = (
        sql.when(given(field) & sql.col(VALUES)[field.name].isNull(), f"{field.name} {misfit(field.type)}")
        for field in fields
    )
    return sql.nullif(sql.concat_ws(", ", *reported), sql.lit(""))


def missing(fields: Iterable[Field]) -> Column:
    """The required fields that are missing, in words; null if there are none."""
    from pyspark.sql import functions as sql

    reported = (
        sql.when(sql.col(VALUES)[field.name].isNull(), f"{field.name} is missing")
        for field in fields
        if field.is_required
    )
    return sql.nullif(sql.concat_ws(", ", *reported), sql.lit(""))


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions is true; null is not."""
    from pyspark.sql import functions as sql

    return sql.coalesce(reduce(lambda condition, other: condition | other, conditions), sql.lit(False))


def _lost_values(schema: Schema, event: Column) -> list[Column]:
    """Whether a value that Spark can read is outside its bounds: times, floats, the symbols of enums."""
    from pyspark.sql import functions as sql

    bounded = [
        field
        for field in schema.fields
        if isinstance(field.type, Enum)
        or field.element in {Plain(name) for name in ("timestamp", "date", "float", *_FROM_NUMBERS)}
    ]
    return [event[field.name].isNotNull() & sql.col(VALUES)[field.name].isNull() for field in bounded]


def _read_as(field: Field) -> str:
    """The type that Spark reads: times may be numbers, and floats are checked before they are one."""
    names = {"float": "double", **dict.fromkeys(_FROM_NUMBERS, "bigint")}
    name = names.get(text_of(field.element), spark_name(field.element))
    return f"array<{name}>" if field.is_list else name


def from_number(name: str, value: Column) -> Column:
    """The date or timestamp that a number is, by a kind of NUMBERED; null if it is beyond the years of tables."""
    from pyspark.sql import functions as sql

    if name == "date_days":
        return sql.when(value.between(FIRST_DAY, LAST_DAY), sql.date_from_unix_date(value.cast("int")))
    unit = NUMBERED[name]
    first = max(-(-FIRST_US * unit.divided_by // unit.times), -(2**63))
    last = min((LAST_US * unit.divided_by + unit.divided_by - 1) // unit.times, 2**63 - 1)
    match name:
        case "timestamp_ms":
            moment = sql.timestamp_millis(value)
        case "timestamp_us":
            moment = sql.timestamp_micros(value)
        case _:
            # Rounded down, in whole numbers: doubles do not have all of them.
            whole = sql.call_function("div", value, sql.lit(unit.divided_by))
            moment = sql.timestamp_micros(whole - sql.when(value % unit.divided_by < 0, 1).otherwise(0))
    return sql.when(value.between(first, last), moment)


def _from_json_value(field: Field, value: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.transform(value, _within(field)) if field.is_list else _within(field)(value)


def _from_text(field: Field, text: Column) -> Column:
    """A field's value from text; null if it does not fit."""
    from pyspark.sql import functions as sql

    def one(part: Column) -> Column:
        if field.element == Plain("string"):
            return part
        if field.element == Plain("binary"):
            return sql.try_to_binary(part, sql.lit("base64"))
        return _within(field)(part.try_cast(_read_as(field).removeprefix("array<").removesuffix(">")))

    if not field.is_list:
        return one(text)
    parts = sql.transform(sql.split(text, ","), one)
    return sql.when(~sql.exists(parts, lambda part: part.isNull()), parts)


def _within(field: Field) -> Callable[[Column], Column]:
    """Replace a value outside the kind's bounds by null; keep all else."""
    from pyspark.sql import functions as sql

    match field.element:
        case Enum(symbols):
            return lambda value: sql.when(value.isin(*symbols), value)
        case Plain("float"):
            return lambda value: sql.when(sql.isnan(value) | (sql.abs(value) <= FLOAT_MAX), value.cast("float"))
        case Plain(name) if name in _FROM_NUMBERS:
            return lambda value: from_number(name, value)
        case Plain("timestamp" | "date" as name):
            first, last = (sql.lit(text).cast(name) for text in ("0001-01-01", "9999-12-31"))
            return lambda value: sql.when((value >= first) & (sql.to_date(value) <= sql.to_date(last)), value)
        case _:
            return lambda value: value
