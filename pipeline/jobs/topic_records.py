"""A sink's rows as records of a topic: a JSON object each, and the record that it was made of in a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sordini.pipeline.schemas.fields import RECORD, RecordColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = {"key": "string", "value": "string", "headers": "array<struct<key:string,value:binary>>"}
"""Of the records, with their types."""


def records_of(frame: DataFrame, options: Mapping[str, str], record: RecordColumns = RECORD) -> DataFrame:
    """The records of rows. The sink's option `key` names the column that is the records' key.

    The header `source` has the row's record as `topic-partition@offset`; `record` are the columns that have it.
    """
    from pyspark.sql import functions as sql

    key = sql.col(options["key"]) if "key" in options else sql.lit(None)
    value = sql.to_json(sql.struct(*(sql.col(name) for name in frame.columns)))
    origin = sql.concat(record.topic, sql.lit("-"), record.partition, sql.lit("@"), record.offset)
    header = sql.struct(sql.lit("source").alias("key"), origin.cast("binary").alias("value"))
    return frame.select(key.cast("string").alias("key"), value.alias("value"), sql.array(header).alias("headers"))


def writer_options(options: Mapping[str, str]) -> dict[str, str]:
    """The sink's options that are the writer's: all but those of rows."""
    return {name: value for name, value in options.items() if name != "key"}
