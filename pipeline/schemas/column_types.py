"""The types of columns: Spark's and Arrow's for each kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sordini.pipeline.schemas.fields import Field
from sordini.pipeline.schemas.kinds import NUMBERED, Decimal, Enum, Kind, ListOf, MapOf, Plain, StructOf, column_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types

SPARK_NAMES: dict[str, str] = {
    "string": "string",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "date": "date",
    "time": "time(6)",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "uuid": "string",
    "binary": "binary",
}
SPARK_NAMES |= {name: SPARK_NAMES[numbered.of] for name, numbered in NUMBERED.items()}
"""A plain kind -> the name of its type in Spark's SQL."""


def spark_name(kind: Kind) -> str:
    """The type's name in Spark's SQL."""
    match kind:
        case Plain():
            return SPARK_NAMES[kind.name]
        case Decimal():
            return f"decimal({kind.precision},{kind.scale})"
        case Enum():
            return "string"
        case ListOf():
            return f"array<{spark_name(kind.items)}>"
        case MapOf():
            return f"map<string,{spark_name(kind.values)}>"
        case StructOf():
            return f"struct<{','.join(f'{field.name}:{spark_name(field.type)}' for field in kind.fields)}>"


def spark_type(kind: Kind) -> types.DataType:
    """The type in Spark."""
    from pyspark.sql import types

    match kind:
        case Plain():
            return _plain_spark_type(column_of(kind.name))
        case Decimal():
            return types.DecimalType(kind.precision, kind.scale)
        case Enum():
            return types.StringType()
        case ListOf():
            return types.ArrayType(spark_type(kind.items))
        case MapOf():
            return types.MapType(types.StringType(), spark_type(kind.values))
        case StructOf():
            return spark_struct(kind.fields)


def spark_struct(fields: Iterable[Field]) -> types.StructType:
    """Fields as Spark's; all may be null."""
    from pyspark.sql import types

    return types.StructType([types.StructField(field.name, spark_type(field.type)) for field in fields])


def arrow_type(kind: Kind, *, for_spark: bool = False) -> pa.DataType:
    """The type in Arrow: that of tables, or that which Spark takes from Python."""
    import pyarrow as pa

    match kind:
        case Plain(name) if column_of(name) == "time":
            return pa.time64("ns" if for_spark else "us")
        case Plain():
            return _plain_arrow_type(column_of(kind.name))
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Enum():
            return pa.string()
        case ListOf():
            return pa.list_(pa.field("element", arrow_type(kind.items, for_spark=for_spark)))
        case MapOf():
            return pa.map_(pa.string(), arrow_type(kind.values, for_spark=for_spark))
        case StructOf():
            return pa.struct([(field.name, arrow_type(field.type, for_spark=for_spark)) for field in kind.fields])


def _plain_spark_type(name: str) -> types.DataType:
    from pyspark.sql import types

    if name == "time":
        return types.TimeType()
    found = {
        "string": types.StringType,
        "int": types.IntegerType,
        "long": types.LongType,
        "float": types.FloatType,
        "double": types.DoubleType,
        "boolean": types.BooleanType,
        "date": types.DateType,
        "timestamp": types.TimestampType,
        "timestamp_ntz": types.TimestampNTZType,
        "uuid": types.StringType,
        "binary": types.BinaryType,
    }[name]
    made: types.DataType = found()
    return made


def _plain_arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "uuid": pa.string(),
        "binary": pa.binary(),
    }[name]
