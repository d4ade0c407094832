from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from sordini.pipeline.tables import TableError
from sordini.pipeline.tables.columns import aligned, arrow_schema, merged, spark_schema
from sordini.pipeline.tables.table import SchemaConflict

EVERY_TYPE = t.StructType(
    [
        t.StructField("text", t.StringType(), False),
        t.StructField("bytes", t.BinaryType()),
        t.StructField("flag", t.BooleanType()),
        t.StructField("byte", t.ByteType()),
        t.StructField("short", t.ShortType()),
        t.StructField("int", t.IntegerType()),
        t.StructField("long", t.LongType()),
        t.StructField("float", t.FloatType()),
        t.StructField("double", t.DoubleType()),
        t.StructField("day", t.DateType()),
        t.StructField("time", t.TimestampType()),
        t.StructField("wall_clock", t.TimestampNTZType()),
        t.StructField("price", t.DecimalType(12, 2)),
        t.StructField("list", t.ArrayType(t.StructType([t.StructField("key", t.StringType())]), False)),
        t.StructField("map", t.MapType(t.StringType(), t.ArrayType(t.LongType()))),
    ]
)


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


def test_spark_s_columns_come_back_all_nullable() -> None:
    back = spark_schema(arrow_schema(EVERY_TYPE))
    assert back.simpleString() == EVERY_TYPE.simpleString()
    assert all(field.nullable for field in back.fields)
    assert arrow_schema(back) == arrow_schema(EVERY_TYPE)


def test_texts_of_bounded_length_are_texts() -> None:
    bounded = t.StructType([t.StructField("a", t.CharType(3)), t.StructField("b", t.VarcharType(9))])
    assert arrow_schema(bounded) == schema(a=pa.string(), b=pa.string())


def test_a_type_that_no_table_keeps_is_reported_with_its_column() -> None:
    with pytest.raises(TableError, match="column 'x' is of Spark's type interval"):
        arrow_schema(t.StructType([t.StructField("x", t.DayTimeIntervalType())]))
    with pytest.raises(TableError, match="column 'x' is of Spark's type void"):
        arrow_schema(t.StructType([t.StructField("x", t.ArrayType(t.NullType()))]))


def test_a_name_that_is_there_twice_is_refused_whatever_its_case() -> None:
    with pytest.raises(TableError, match="more than one column named a"):
        arrow_schema(t.StructType([t.StructField("a", t.LongType()), t.StructField("A", t.LongType())]))


def test_new_columns_come_after_those_of_the_table() -> None:
    table, rows = schema(a=pa.int64(), b=pa.string()), schema(c=pa.bool_(), a=pa.int64())
    assert merged(table, rows) == schema(a=pa.int64(), b=pa.string(), c=pa.bool_())
    assert merged(None, rows) == rows


def test_a_column_keeps_its_type_or_gets_a_wider_one() -> None:
    assert merged(schema(a=pa.int64()), schema(a=pa.int16())) == schema(a=pa.int64())
    assert merged(schema(a=pa.int16()), schema(a=pa.int64())) == schema(a=pa.int64())
    for narrow, wide in ((pa.int32(), pa.float64()), (pa.string(), pa.binary()), (pa.date32(), pa.timestamp("us"))):
        with pytest.raises(SchemaConflict, match="column 'a' is"):
            merged(schema(a=narrow), schema(a=wide))


def test_names_that_differ_in_case_alone_are_no_new_column() -> None:
    with pytest.raises(SchemaConflict, match="'A' where the table has 'a'"):
        merged(schema(a=pa.int64()), schema(A=pa.int64()))


def test_rows_get_the_table_s_order_types_and_nulls() -> None:
    noon = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
    batch = pa.RecordBatch.from_pydict(
        {"time": pa.array([noon], pa.timestamp("us", "Europe/Berlin")), "n": pa.array([7], pa.int16())}
    )
    wanted = schema(n=pa.int64(), missing=pa.list_(pa.string()), time=pa.timestamp("us", "UTC"))
    rows = aligned(batch, wanted)
    assert rows.schema == wanted
    assert rows.to_pylist() == [{"n": 7, "missing": None, "time": noon}]
