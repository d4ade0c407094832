"""Converts record values to columns, and keeps a reason for each value that does not fit, so that no job stops at it.

The input has the columns of a Kafka source. `rows` have the schema's fields, the record's position, and the kept
columns; `dead_letters` have the original bytes and the reason. A simple condition separates the two: the reason, whose
expression is many times larger, is only planned and computed for dead letters, and most batches have none.

Nothing here raises while Spark runs: casts are tried, JSON is read permissively (ANSI mode, Spark's default since 4.0,
would stop at the first bad cast).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.pipeline.schemas.fields import RECORD_COLUMNS, Field, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEAD: Final = "_dead"
_EVENT: Final = "_event"
_VALUES: Final = "_values"
_CORRUPT: Final = "_corrupt"

# The bounds of timestamps that all readers of tables support, in ms since 1970: the years 1 to 9999.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class Decoded(NamedTuple):
    """Decoded records; `frame` has the column DEAD, true for dead letters."""

    frame: DataFrame
    fields: tuple[str, ...]
    kept: tuple[str, ...]
    reason: Column | None
    """The reason, an expression over the frame's columns; None if there are no dead letters."""

    def rows(self, frame: DataFrame | None = None) -> DataFrame:
        """The valid rows, of this frame or one derived from it."""
        from pyspark.sql import functions as sql

        values = (sql.col(_VALUES)[name].alias(name) for name in self.fields)
        good = (self.frame if frame is None else frame).where(~sql.col(DEAD))
        return good.select(*(values if self.reason is not None else self.fields), *RECORD_COLUMNS, *self.kept)

    def dead_letters(self) -> DataFrame:
        """The records that could not be decoded: reason, position, time, key, value; headers if they are kept."""
        from pyspark.sql import functions as sql

        reason = sql.lit(None).cast("string") if self.reason is None else self.reason
        headers = (name for name in self.kept if name == "headers")
        return self.frame.where(DEAD).select(reason.alias("reason"), *RECORD_COLUMNS, "key", "value", *headers)


def source_columns(kept: tuple[str, ...]) -> tuple[str, ...]:
    """Which columns of the source decoding needs."""
    return ("key", "value", *RECORD_COLUMNS, *(name for name in kept if name != "key"))


def raw(frame: DataFrame, kept: tuple[str, ...]) -> Decoded:
    """Records as they are: each one is a valid row, with the columns `key` and `value`."""
    from pyspark.sql import functions as sql

    extra = tuple(name for name in kept if name != "key")
    return Decoded(frame.withColumn(DEAD, sql.lit(False)), ("key", "value"), extra, None)


def from_json(frame: DataFrame, schema: Schema, kept: tuple[str, ...]) -> Decoded:
    """Values that are JSON objects. Names that are not in the schema are left out."""
    from pyspark.sql import functions as sql

    text, event = sql.col("value").cast("string"), sql.col(_EVENT)
    shape = ", ".join(f"`{field.name}` {_json_name(field)}" for field in schema.fields)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = sql.from_json(text, f"{shape}, {_CORRUPT} string", options)
    values = {field.name: _from_json_value(field, event[field.name]) for field in schema.fields}
    # Spark replaces bytes that are not UTF-8 by other characters, so they are detected here.
    is_text = sql.coalesce(sql.is_valid_utf8(text) & sql.startswith(sql.ltrim(text), sql.lit("{")), sql.lit(False))

    def given(field: Field) -> Column:
        return sql.get_json_object(text, f"$.{field.name}").isNotNull()

    misfits = _misfits(schema.fields, given)
    reason = (
        sql.when(sql.col("value").isNull(), "the value is null")
        .when(~sql.is_valid_utf8(text), "not UTF-8")
        .when(~is_text | event.isNull(), "not a JSON object")
        .when(event[_CORRUPT].isNotNull() & sql.try_parse_json(text).isNull(), "not JSON")
        .otherwise(sql.coalesce(misfits, _missing(schema.fields), sql.lit("does not fit the schema")))
    )
    is_dead = _any([~is_text, event.isNull(), event[_CORRUPT].isNotNull(), *_lost_times(schema, event)])
    return _decoded(frame.withColumn(_EVENT, parsed), schema, kept, values, is_dead, reason)


def from_pairs(
    frame: DataFrame, schema: Schema, kept: tuple[str, ...], between: str = "&", equals: str = "="
) -> Decoded:
    """Values that are text like `page=/home&member_id=7`, each name once (the first counts).

    Between `&` and `=`, as in a URL, percent encoding is undone. The elements of a list have commas between.
    """
    from pyspark.sql import functions as sql

    text, event = sql.col("value").cast("string"), sql.col(_EVENT)
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
        sql.when(sql.col("value").isNull(), "the value is null")
        .when(~sql.is_valid_utf8(text), "not UTF-8")
        .when(~has_pairs, f"no name{equals}value in it")
        .otherwise(sql.coalesce(_misfits(schema.fields, given), _missing(schema.fields)))
    )
    wrong = (given(field) & sql.col(_VALUES)[field.name].isNull() for field in schema.fields)
    return _decoded(
        frame.withColumn(_EVENT, sql.struct(*found)), schema, kept, values, _any([~has_pairs, *wrong]), reason
    )


def from_schema_id(frame: DataFrame, schema: Schema, kept: tuple[str, ...], writers: Mapping[int, str]) -> Decoded:
    """Values in the form of schema registries: a zero byte, the schema's id in four, and Avro.

    `writers` has the Avro schema (JSON text) of each id. Fields that a writer did not know are null.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.functions import arrow_udf

    from sordini.pipeline.schemas.prefixed import reader_for

    read = arrow_udf(reader_for(schema, writers), _ddl(schema))  # type: ignore[call-overload]
    event = sql.col(_EVENT)
    values = {field.name: event[field.name] for field in schema.fields}
    reason = sql.when(sql.col("value").isNull(), "the value is null").otherwise(
        sql.coalesce(event[_CORRUPT], _missing(schema.fields))
    )
    is_dead = _any([sql.col("value").isNull(), event[_CORRUPT].isNotNull()])
    return _decoded(frame.withColumn(_EVENT, read(sql.col("value"))), schema, kept, values, is_dead, reason)


def _decoded(
    frame: DataFrame,
    schema: Schema,
    kept: tuple[str, ...],
    values: Mapping[str, Column],
    is_dead: Column,
    reason: Column,
) -> Decoded:
    """Add the values and the condition to each record; a missing required field makes a dead letter."""
    from pyspark.sql import functions as sql

    struct = sql.struct(*(value.alias(name) for name, value in values.items()))
    missing = (sql.col(_VALUES)[field.name].isNull() for field in schema.fields if field.is_required)
    with_values = frame.withColumn(_VALUES, struct).withColumn(DEAD, _any([is_dead, *missing]))
    return Decoded(with_values, tuple(field.name for field in schema.fields), kept, reason)


def _misfits(fields: Iterable[Field], given: Callable[[Field], Column]) -> Column:
    """The fields whose given values do not fit, in words; null if there are none."""
    from pyspark.sql import functions as sql

    reported = (
        sql.when(given(field) & sql.col(_VALUES)[field.name].isNull(), f"{field.name} is not {_a(field.kind)}")
        for field in fields
    )
    return sql.nullif(sql.concat_ws(", ", *reported), sql.lit(""))


def _missing(fields: Iterable[Field]) -> Column:
    """The required fields that are missing, in words; null if there are none."""
    from pyspark.sql import functions as sql

    reported = (
        sql.when(sql.col(_VALUES)[field.name].isNull(), f"{field.name} is missing")
        for field in fields
        if field.is_required
    )
    return sql.nullif(sql.concat_ws(", ", *reported), sql.lit(""))


def _any(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions is true; null is not."""
    from pyspark.sql import functions as sql

    return sql.coalesce(reduce(lambda one, other: one | other, conditions), sql.lit(False))


def _lost_times(schema: Schema, event: Column) -> list[Column]:
    """Whether a time is outside the years that tables support."""
    from pyspark.sql import functions as sql

    times = [field for field in schema.fields if field.element in {"timestamp", "timestamp_ms", "date"}]
    return [event[field.name].isNotNull() & sql.col(_VALUES)[field.name].isNull() for field in times]


def _json_name(field: Field) -> str:
    """The type Spark reads from JSON: milliseconds are numbers there."""
    if field.element == "timestamp_ms":
        return "array<bigint>" if field.is_list else "bigint"
    return field.spark_name


def _from_json_value(field: Field, value: Column) -> Column:
    return _each(field, value, _moment) if field.element == "timestamp_ms" else _each(field, value, _within(field))


def _from_text(field: Field, text: Column) -> Column:
    """A field's value from text; null if it does not fit."""
    from pyspark.sql import functions as sql

    def one(part: Column) -> Column:
        if field.element == "string":
            return part
        if field.element == "binary":
            return sql.try_to_binary(part, sql.lit("base64"))
        if field.element == "timestamp_ms":
            return _moment(part.try_cast("bigint"))
        return _within(field)(part.try_cast(_element_name(field)))

    if not field.is_list:
        return one(text)
    parts = sql.transform(sql.split(text, ","), one)
    return sql.when(~sql.exists(parts, lambda part: part.isNull()), parts)


def _element_name(field: Field) -> str:
    return field.spark_name.removeprefix("array<").removesuffix(">")


def _each(field: Field, value: Column, change: Callable[[Column], Column]) -> Column:
    from pyspark.sql import functions as sql

    return sql.transform(value, change) if field.is_list else change(value)


def _within(field: Field) -> Callable[[Column], Column]:
    """Replace a time outside the years that tables support by null; keep all else."""
    from pyspark.sql import functions as sql

    if field.element not in {"timestamp", "date"}:
        return lambda value: value
    first, last = (sql.lit(text).cast(field.element) for text in ("0001-01-01", "9999-12-31"))
    return lambda value: sql.when((value >= first) & (sql.to_date(value) <= sql.to_date(last)), value)


def _moment(milliseconds: Column) -> Column:
    """Milliseconds as a time; null outside the years that tables support."""
    from pyspark.sql import functions as sql

    return sql.when(milliseconds.between(_FIRST_MS, _LAST_MS), sql.timestamp_millis(milliseconds))


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _ddl(schema: Schema) -> str:
    fields = ", ".join(f"`{field.name}`: {field.spark_name}" for field in schema.fields)
    return f"struct<{fields}, `{_CORRUPT}`: string>"
