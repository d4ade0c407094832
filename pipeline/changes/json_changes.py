"""Changes whose values are JSON: the envelope is the value itself, or its `payload` beside a `schema`.

Spark's own functions read it. The parts of the envelope stay texts, of which one becomes the value that is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sordini.pipeline.changes import envelope
from sordini.pipeline.changes.envelope import AFTER, BEFORE, CHANGE, ENVELOPE, KEY, PARTS, Envelope, Facts, all_of
from sordini.pipeline.changes.keys import Key
from sordini.pipeline.schemas.column_types import spark_name
from sordini.pipeline.schemas.fields import Field
from sordini.pipeline.schemas.kinds import NUMBERED
from sordini.pipeline.schemas.spark_expressions import from_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def json_changes(records: DataFrame, kind: Envelope, keys: Sequence[Key], *, has_sequence: bool) -> DataFrame:
    """A row for each change: CHANGE, for Debezium ENVELOPE, and as `value` the bytes that are decoded."""
    from pyspark.sql import functions as sql

    if kind is Envelope.NONE:
        changes, value = envelope.plain_changes(records), sql.col("value").cast("string")
        texts = {AFTER: value, KEY: _key_text(keys)}
    else:
        opened = records.withColumn(ENVELOPE, _parsed(sql.col("value").cast("string")))
        opened = opened.withColumn(ENVELOPE, _opened(sql.col(ENVELOPE)))
        found = sql.col(ENVELOPE)
        changes = envelope.debezium_changes(opened, _facts(found, keys), has_sequence=has_sequence)
        texts = {AFTER: found["after"], BEFORE: found["before"], KEY: _key_text(keys)}
    part = sql.col(CHANGE)["part"]
    text = sql.coalesce(*(sql.when(part == name, text) for name, text in texts.items()))
    return changes.withColumn("value", text.cast("binary"))


def column_of(path: str, field: Field) -> Column:
    """A part of Debezium's envelope, such as `source.lsn`; null where it is missing or does not fit."""
    from pyspark.sql import functions as sql

    first, _, rest = path.partition(".")
    column = sql.col(ENVELOPE)[first]
    text = sql.get_json_object(column, f"$.{rest}") if rest else column
    if field.kind == "string":
        return text
    if field.kind in NUMBERED:
        return from_number(field.kind, text.try_cast("bigint"))
    return text.try_cast(spark_name(field.type))


def _parsed(text: Column) -> Column:
    from pyspark.sql import functions as sql

    parts = ", ".join(f"{name} string" for name in PARTS)
    return sql.from_json(text, f"{parts}, payload struct<{parts.replace(' string', ': string')}>")


def _opened(found: Column) -> Column:
    """The parts of the envelope, with or without a schema around it."""
    from pyspark.sql import functions as sql

    payload = found["payload"]
    each = ((name, sql.when(payload.isNotNull(), payload[name]).otherwise(found[name])) for name in PARTS)
    return sql.struct(*(value.alias(name) for name, value in each))


def _facts(found: Column, keys: Sequence[Key]) -> Facts:
    from pyspark.sql import functions as sql

    before = [_value(found["before"], key) for key in keys]
    after = [_value(found["after"], key) for key in keys]
    has_keys = all_of(value.isNotNull() for value in before)
    same = all_of(sql.coalesce(old == new, sql.lit(True)) for old, new in zip(before, after, strict=True))
    return Facts(
        is_null=sql.col("value").isNull(),
        op=found["op"],
        status=found["status"],
        has_after=found["after"].isNotNull(),
        has_keys=has_keys,
        has_moved=has_keys & ~same,
        unreadable=sql.lit(None).cast("string"),
    )


def _value(text: Column, key: Key) -> Column:
    """The text of a key's value in an object; the first of its places that has one."""
    from pyspark.sql import functions as sql

    return sql.coalesce(*(sql.get_json_object(text, path) for path in key.json_paths))


def _key_text(keys: Sequence[Key]) -> Column:
    """The record's key as a JSON object with the key's fields. A key that is a single value is the only key's."""
    from pyspark.sql import functions as sql

    text = sql.col("key").cast("string")
    payload = sql.coalesce(sql.get_json_object(text, "$.payload"), text)
    if len(keys) > 1:
        return payload
    is_object = sql.startswith(sql.ltrim(payload), sql.lit("{"))
    is_value = sql.startswith(sql.ltrim(payload), sql.lit('"'))
    if not keys[0].is_text:
        is_value |= payload.try_cast("double").isNotNull()
    opening, closing = keys[0].around
    of_value = sql.concat(sql.lit(opening), payload, sql.lit(closing))
    # As a string of JSON: {"a":"..."} from the quotation mark on.
    quoted = sql.substr(sql.to_json(sql.struct(payload.alias("a"))), sql.lit(6))
    of_text = sql.concat(sql.lit(opening), quoted, sql.lit(closing[1:]))
    return sql.when(is_object, payload).when(is_value, of_value).when(payload.isNotNull(), of_text)
