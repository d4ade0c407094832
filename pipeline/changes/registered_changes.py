"""Changes whose values have the id of a schema in front: what Spark's Python workers read of them, as columns.

A worker reads of each value all parts of the envelope (`registered_parts.py`); which of them counts is decided by the
facts, as for JSON (`envelope.py`). Records' keys are read in a second step, and only those that are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from sordini.pipeline.changes import envelope
from sordini.pipeline.changes.envelope import AFTER, BEFORE, CHANGE, DELETION, ENVELOPE, KEY, Envelope, Facts, all_of
from sordini.pipeline.changes.keys import Key
from sordini.pipeline.changes.registered_parts import Parts, ReadParts, envelopes, plain_rows, record_keys
from sordini.pipeline.schemas.column_types import spark_struct
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.schemas.spark_expressions import VALUES
from sordini.pipeline.schemas.values.row_reader import REASON, Row, arrays_of, columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_KEY: Final = "_key"
_BEFORE_REASON, _AFTER_REASON = "before_reason", "after_reason"
_TAKEN: Final = "taken_{}"
"""A column of ENVELOPE that is taken from the envelope, by its number."""


def registered_changes(
    records: DataFrame,
    kind: Envelope,
    schema: Schema,
    keys: Sequence[Key],
    taken: Sequence[tuple[str, Field]],
    registered: RegisteredSchemas,
    *,
    has_sequence: bool,
) -> DataFrame:
    """A row for each change: CHANGE, VALUES of the schema, REASON where those could not be read, and ENVELOPE."""
    from pyspark.sql import functions as sql

    fields = tuple(field for _, field in taken)
    is_plain = kind is Envelope.NONE
    found = records.withColumn(
        ENVELOPE,
        _arrow_column(
            sql.col("value"),
            _envelope_fields(schema, fields),
            lambda: _envelope_arrays(
                schema, fields, plain_rows(registered, schema) if is_plain else envelopes(registered, schema, taken)
            ),
        ),
    )
    if is_plain:
        changes = envelope.plain_changes(found)
    else:
        known = [key.name for key in keys if any(key.name == field.name for field in schema.fields)]
        changes = envelope.debezium_changes(found, _facts(known), has_sequence=has_sequence)
    part, read = sql.col(CHANGE)["part"], sql.col(ENVELOPE)
    with_key = changes.withColumn(
        _KEY,
        _arrow_column(
            sql.when((part == KEY) & (sql.col(CHANGE)["kind"] == DELETION), sql.col("key")),
            [*_spark_fields(schema.fields), _text_field(REASON)],
            lambda: _key_arrays(schema, record_keys(registered, schema, keys)),
        ),
    )
    of_key = sql.col(_KEY)
    key_values = sql.struct(*(of_key[field.name].alias(field.name) for field in schema.fields))
    values = sql.when(part == AFTER, read[AFTER]).when(part == BEFORE, read[BEFORE]).otherwise(key_values)
    # Where a key in `before` does not fit, it is that of the record, if that has one.
    of_deletion = sql.coalesce(of_key[REASON], sql.when(sql.col("key").isNull(), read[_BEFORE_REASON]))
    reason = sql.when(part == AFTER, read[_AFTER_REASON]).when(part == KEY, of_deletion)
    return with_key.withColumn(VALUES, values).withColumn(REASON, reason)


def column_of(number: int) -> Column:
    """The column that is taken from the envelope, by its number."""
    from pyspark.sql import functions as sql

    return sql.col(ENVELOPE)[_TAKEN.format(number)]


def _facts(keys: Sequence[str]) -> Facts:
    """Of the keys that rows have; those that a transform makes are in no envelope."""
    from pyspark.sql import functions as sql

    found = sql.col(ENVELOPE)
    before, after = found[BEFORE], found[AFTER]
    has_keys = all_of([sql.lit(bool(keys)), *(before[name].isNotNull() for name in keys)])
    same = all_of([sql.lit(True), *(sql.coalesce(before[name] == after[name], sql.lit(True)) for name in keys)])
    return Facts(
        is_null=sql.col("value").isNull(),
        op=found["op"],
        status=found["status"],
        has_after=sql.coalesce(found["has_after"], sql.lit(False)),
        has_keys=has_keys,
        has_moved=has_keys & ~same,
        unreadable=found["unreadable"],
    )


def _spark_fields(fields: Sequence[Field]) -> list[object]:
    return list(spark_struct(fields))


def _text_field(name: str) -> object:
    from pyspark.sql import types

    return types.StructField(name, types.StringType())


def _envelope_fields(schema: Schema, taken: Sequence[Field]) -> list[object]:
    """Of ENVELOPE, in the order of `_envelope_arrays`."""
    from pyspark.sql import types

    row = spark_struct(schema.fields)
    of_taken = [
        types.StructField(_TAKEN.format(number), each.dataType) for number, each in enumerate(spark_struct(taken))
    ]
    return [
        *map(_text_field, ("op", "status", "unreadable", _BEFORE_REASON, _AFTER_REASON)),
        types.StructField("has_after", types.BooleanType()),
        types.StructField(BEFORE, row),
        types.StructField(AFTER, row),
        *of_taken,
    ]


def _envelope_arrays(schema: Schema, taken: Sequence[Field], read: ReadParts) -> Callable[[pa.Array], pa.Array]:
    import pyarrow as pa

    nothing = Parts()
    names = [
        "op", "status", "unreadable", _BEFORE_REASON, _AFTER_REASON, "has_after", BEFORE, AFTER,
        *map(_TAKEN.format, range(len(taken))),
    ]  # fmt: skip
    columns_of_row = [field.name for field in schema.fields]

    def rows(parts: Sequence[Row]) -> pa.Array:
        return pa.StructArray.from_arrays(arrays_of([row for row, _ in parts], schema.fields), columns_of_row)

    def arrays(values: pa.Array) -> pa.Array:
        found = [nothing if value is None else read(value) for value in values.to_pylist()]
        before, after = [each.before for each in found], [each.after for each in found]
        texts = (
            [each.op for each in found],
            [each.status for each in found],
            [each.unreadable for each in found],
            [reason for _, reason in before],
            [reason for _, reason in after],
        )
        made = [
            *(pa.array(each, pa.string()) for each in texts),
            pa.array([each.has_after for each in found], pa.bool_()),
            rows(before),
            rows(after),
            *arrays_of([list(each.taken) or None for each in found], taken),
        ]
        return pa.StructArray.from_arrays(made, names)

    return arrays


def _key_arrays(schema: Schema, read: Callable[[bytes], Row]) -> Callable[[pa.Array], pa.Array]:
    return lambda keys: columns(keys, schema, read)


def _arrow_column(
    column: Column, fields: Sequence[object], make: Callable[[], Callable[[pa.Array], pa.Array]]
) -> Column:
    """What a function of Arrow arrays makes of a column: a struct. `make` is called in Spark's workers, once a task."""
    from pyspark.sql import types
    from pyspark.sql.pandas.functions import arrow_udf

    made: list[Callable[[pa.Array], pa.Array]] = []

    def read(values: pa.Array) -> pa.Array:
        if not made:
            made.append(make())
        return made[0](values)

    # Spark derives the kind of function from the annotations.
    import pyarrow as pa

    read.__annotations__ = {"values": pa.Array, "return": pa.Array}
    returned = types.StructType(list(fields))  # type: ignore[arg-type]
    return arrow_udf(read, returned)(column)  # type: ignore[call-overload, no-any-return]
