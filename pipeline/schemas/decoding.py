"""Converts record values to columns, and keeps a reason for each value that does not fit, so that no job stops at it.

The input has the columns of a Kafka source. `rows` have the schema's fields, the record's position, and the kept
columns; `dead_letters` have the original bytes and the reason. Flat schemas are decoded by Spark's own expressions
(`spark_expressions.py`), all others in Spark's Python workers (`values/`, `registered.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sordini.pipeline.schemas.column_types import spark_struct
from sordini.pipeline.schemas.fields import RECORD, Schema
from sordini.pipeline.schemas.spark_expressions import (
    EVENT,
    NULL,
    VALUES,
    Expressions,
    any_of,
    is_flat,
    json_expressions,
    pairs_expressions,
)
from sordini.pipeline.schemas.values.json_values import json_reader
from sordini.pipeline.schemas.values.misfit import Reader
from sordini.pipeline.schemas.values.parsing import json_parser, pairs_parser
from sordini.pipeline.schemas.values.row_reader import REASON, Parse, ReadOne, RowReader, Unreadable, columns
from sordini.pipeline.schemas.values.text_values import text_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from sordini.pipeline.schemas.registered import RegisteredSchemas

DEAD: Final = "_dead"


class Decoded(NamedTuple):
    """Decoded records; `frame` has the column DEAD, true for dead letters."""

    frame: DataFrame
    fields: tuple[str, ...]
    kept: tuple[str, ...]
    reason: Column | None
    """The reason, an expression over the frame's columns; None if there are no dead letters."""
    more: Mapping[str, Column] = {}
    """Further columns of the rows, as expressions over the frame's."""
    value: Column | None = None
    """The record's value, if the frame's column `value` is another."""
    is_record: Column | None = None
    """Which rows of the frame count as records, if not all do: a record may be two changes."""
    is_row: Column | None = None
    """Which records are rows or dead letters, if not all are."""

    def values(self) -> dict[str, Column]:
        """The fields of a row, as expressions over the frame's columns."""
        from pyspark.sql import functions as sql

        if self.reason is None:
            return {name: sql.col(name) for name in self.fields}
        return {name: sql.col(VALUES)[name] for name in self.fields}

    prefix: str = ""
    """Before the names of the columns of the record: also those that are kept."""

    def rows(self, frame: DataFrame | None = None) -> DataFrame:
        """The valid rows, of this frame or one derived from it."""
        from pyspark.sql import functions as sql

        values = (value.alias(name) for name, value in {**self.values(), **self.more}.items())
        good = (self.frame if frame is None else frame).where(~sql.col(DEAD))
        if self.is_row is not None:
            good = good.where(self.is_row)
        of_record = [sql.col(name).alias(f"{self.prefix}{name}") for name in (*RECORD, *self.kept)]
        return good.select(*values, *of_record)

    def dead_letters(self) -> DataFrame:
        """The records that could not be decoded: reason, position, time, key, value; headers if they are kept."""
        from pyspark.sql import functions as sql

        reason = sql.lit(None).cast("string") if self.reason is None else self.reason
        headers = (name for name in self.kept if name == "headers")
        value = sql.col("value") if self.value is None else self.value
        return self.frame.where(DEAD).select(reason.alias("reason"), *RECORD, "key", value.alias("value"), *headers)

    def counts(self) -> tuple[Column, Column]:
        """Aggregates over the frame: `records`, and `dead` ones."""
        from pyspark.sql import functions as sql

        is_record = sql.lit(True) if self.is_record is None else self.is_record
        return sql.count_if(is_record).alias("records"), sql.count_if(DEAD).alias("dead")


def source_columns(kept: tuple[str, ...]) -> tuple[str, ...]:
    """Which columns of the source decoding needs."""
    return ("key", "value", *RECORD, *(name for name in kept if name != "key"))


def raw(frame: DataFrame, kept: tuple[str, ...], prefix: str = "") -> Decoded:
    """Records as they are: each one is a valid row, with the columns `key` and `value`."""
    from pyspark.sql import functions as sql

    extra = tuple(name for name in kept if name != "key")
    return Decoded(frame.withColumn(DEAD, sql.lit(False)), ("key", "value"), extra, None, prefix=prefix)


def from_json(frame: DataFrame, schema: Schema, kept: tuple[str, ...], prefix: str = "") -> Decoded:
    """Values that are JSON objects. Names that are not in the schema are left out."""
    if is_flat(schema):
        return _by_spark(frame, schema, kept, prefix, json_expressions(schema))
    return _by_python(frame, schema, kept, prefix, lambda: json_rows(schema))


def from_pairs(
    frame: DataFrame, schema: Schema, kept: tuple[str, ...], prefix: str = "", between: str = "&", equals: str = "="
) -> Decoded:
    """Values that are text like `page=/home&member_id=7`, each name once (the first counts).

    Between `&` and `=`, as in a URL, percent encoding is undone. The elements of a list have commas between.
    """
    if is_flat(schema):
        return _by_spark(frame, schema, kept, prefix, pairs_expressions(schema, between, equals))
    return _by_python(frame, schema, kept, prefix, lambda: pair_rows(schema, between, equals))


def from_schema_id(
    frame: DataFrame, schema: Schema, kept: tuple[str, ...], registered: RegisteredSchemas, prefix: str = ""
) -> Decoded:
    """Values in the form of schema registries: a zero byte, the schema's id in four, and the value as it says.

    Fields that a writer did not know are null.
    """
    return _by_python(frame, schema, kept, prefix, lambda: registered.reader(schema))


def json_rows(schema: Schema) -> ReadOne:
    """From the bytes of a JSON object to the schema's columns."""
    kinds = [field.type for field in schema.fields]
    return _reading(schema, json_parser(kinds), [json_reader(kind) for kind in kinds])


def pair_rows(schema: Schema, between: str, equals: str) -> ReadOne:
    """From the bytes of pairs to the schema's columns."""
    return _reading(schema, pairs_parser(between, equals), [text_reader(field.type) for field in schema.fields])


def _reading(schema: Schema, parse: Parse, readers: list[Reader]) -> ReadOne:
    reader = RowReader(schema, readers)

    def read(value: bytes) -> tuple[list[Any] | None, str | None]:
        try:
            found = parse(value)
        except Unreadable as error:
            return None, str(error)
        return reader.row(found)

    return read


def _by_spark(frame: DataFrame, schema: Schema, kept: tuple[str, ...], prefix: str, how: Expressions) -> Decoded:
    """Add the values and the condition to each record; a missing required field makes a dead letter."""
    from pyspark.sql import functions as sql

    struct = sql.struct(*(value.alias(name) for name, value in how.values.items()))
    absent = (sql.col(VALUES)[field.name].isNull() for field in schema.fields if field.is_required)
    with_event = frame.withColumn(EVENT, how.event).withColumn(VALUES, struct)
    dead = with_event.withColumn(DEAD, any_of([how.is_dead, *absent]))
    return Decoded(dead, _names(schema), kept, how.reason, prefix=prefix)


def _by_python(
    frame: DataFrame, schema: Schema, kept: tuple[str, ...], prefix: str, make: Callable[[], ReadOne]
) -> Decoded:
    """The same in Spark's Python workers; `make` is called there, once for each task."""
    from pyspark.sql import functions as sql
    from pyspark.sql import types
    from pyspark.sql.pandas.functions import arrow_udf

    returned = types.StructType([*spark_struct(schema.fields), types.StructField(REASON, types.StringType())])
    decode = arrow_udf(_arrow_function(schema, make), returned)  # type: ignore[call-overload]
    values = sql.col(VALUES)
    is_dead = any_of([sql.col("value").isNull(), values[REASON].isNotNull()])
    reason = sql.when(sql.col("value").isNull(), NULL).otherwise(values[REASON])
    dead = frame.withColumn(VALUES, decode(sql.col("value"))).withColumn(DEAD, is_dead)
    return Decoded(dead, _names(schema), kept, reason, prefix=prefix)


def _arrow_function(schema: Schema, make: Callable[[], ReadOne]) -> Callable[[pa.Array], pa.Array]:
    made: list[ReadOne] = []

    def read(values: pa.Array) -> pa.Array:
        if not made:
            made.append(make())
        return columns(values, schema, made[0])

    # Spark derives the kind of function from the annotations.
    import pyarrow as pa

    read.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return read


def _names(schema: Schema) -> tuple[str, ...]:
    return tuple(field.name for field in schema.fields)
