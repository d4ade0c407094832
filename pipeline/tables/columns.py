"""The columns of a table: Spark's types in Parquet files, and the addition of new columns.

Inside this package a table's columns are an Arrow schema in one normal form: every field may be null, timestamps are
in microseconds, those with a zone are in UTC, list items are named `element`. So equal columns have equal schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.schemas.values.plain_values import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from sordini.pipeline.tables.table import TableError
from sordini.pipeline.tables.widening import cast, merged_fields

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

ATOMS = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("us"),
}
"""Arrow's types by Spark's `simpleString`."""

PARTITION_TYPES = frozenset({pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32()})
"""The types of partition columns: those whose text is the same for every reader."""


def arrow_schema(columns: StructType) -> pa.Schema:
    """The normal form of Spark's columns. Raises TableError for an unsupported type or a duplicate name."""
    names = [field.name.lower() for field in columns.fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"the rows have more than one column named {', '.join(twice)}")
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType, field.name)) for field in columns.fields])


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's columns for an Arrow schema; undoes `arrow_schema`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def merged(table: pa.Schema | None, rows: pa.Schema) -> pa.Schema:
    """The table's columns and those that the rows add, of the wider of their types.

    Raises SchemaConflict if a column has another type.
    """
    return rows if table is None else pa.schema(merged_fields(list(table), list(rows)))


def check_partitions(schema: pa.Schema, partition_by: tuple[str, ...]) -> None:
    """Raises BadSetting if a partition column does not exist, or has an unsupported type."""
    for name in partition_by:
        if name not in schema.names:
            raise BadSetting(f"the table is to be partitioned by '{name}', which is no column of the rows")
        if schema.field(name).type not in PARTITION_TYPES:
            raise BadSetting(
                f"the table is to be partitioned by '{name}', which is {schema.field(name).type}: "
                "partitions can be strings, integers, booleans and dates"
            )
    if len(partition_by) == len(schema.names):
        raise BadSetting("a table partitioned by all of its columns would have nothing in its files")


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with exactly the columns of `schema`, in its order and types; missing columns are null."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            column = batch.column(at)
            columns.append(cast(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_times(batch: pa.RecordBatch) -> None:
    """Check that dates and timestamps are of the years 1 to 9999: others can be no bounds of files, and no partitions.

    Raises TableError. Those within structs, lists and maps are not checked, as they are neither.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.type == ATOMS["date"]:
            _check_bounds(column, name, FIRST_DAY, LAST_DAY)
        elif column.type in (ATOMS["timestamp"], ATOMS["timestamp_ntz"]):
            _check_bounds(column, name, FIRST_US, LAST_US)


def _check_bounds(values: pa.Array, name: str, first: int, last: int) -> None:
    found = pc.min_max(values)
    for bound in (found["min"], found["max"]):
        if bound.is_valid and not first <= bound.value <= last:
            is_date = pa.types.is_date(values.type)
            wrong = np.datetime64(bound.value, "D") if is_date else np.datetime64(bound.value, "us")
            raise TableError(f"column '{name}' has {wrong}: tables have times of the years 1 to 9999")


def _arrow_type(kind: DataType, column: str) -> pa.DataType:
    name = kind.simpleString()
    if name in ATOMS:
        return ATOMS[name]
    parts: Any = kind
    match kind.typeName():
        case "decimal":
            return pa.decimal128(parts.precision, parts.scale)
        case "char" | "varchar":
            return pa.string()
        case "array":
            return pa.list_(pa.field("element", _arrow_type(parts.elementType, column)))
        case "map":
            return pa.map_(_arrow_type(parts.keyType, column), _arrow_type(parts.valueType, column))
        case "struct":
            return pa.struct([pa.field(each.name, _arrow_type(each.dataType, column)) for each in parts.fields])
        case _:
            raise TableError(f"column '{column}' is of Spark's type {name}, which tables do not support")
