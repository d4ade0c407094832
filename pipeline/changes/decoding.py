"""Makes rows of changes whose values are JSON, and dead letters of records that are none; see `envelope.py`.

The rows have the columns of the schema, those taken from the envelope, the record's position, and the mark of
deletions. Of a deletion only the key has to fit, as databases send no more of a deleted row. A change without a key or
a sequence is a dead letter: it cannot be put in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from sordini.pipeline.changes import envelope
from sordini.pipeline.changes.envelope import CHANGE, DELETION, NOTHING, REFUSED, Envelope
from sordini.pipeline.schemas import decoding
from sordini.pipeline.schemas.column_types import spark_name
from sordini.pipeline.schemas.decoding import DEAD, Decoded
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.spark_expressions import NO_FIT
from sordini.pipeline.tables.upsert import DELETED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ORIGINAL: Final = "_original"
_FROM_ENVELOPE: Final = "_from_envelope"


@dataclass(frozen=True)
class ChangeColumns:
    """What the rows of changes need."""

    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    from_envelope: Mapping[str, tuple[str, Field]] = field(default_factory=dict)
    """Further columns: name -> the path in the envelope, and the field that it becomes."""


def from_json_changes(
    records: DataFrame,
    schema: Schema,
    kept: tuple[str, ...],
    kind: Envelope,
    columns: ChangeColumns,
    prefix: str = "",
) -> Decoded:
    """Records as changes; the rows also have DELETED."""
    from pyspark.sql import functions as sql

    original = records.withColumn(_ORIGINAL, sql.col("value"))
    keys = [name for name in columns.keys if any(name == each.name for each in schema.fields)]
    changes = envelope.changes_of(original, kind, keys or list(columns.keys), has_sequence=bool(columns.sequence))
    change = sql.col(CHANGE)
    changes = changes.withColumn("value", change["text"].cast("binary"))
    # What a deletion lacks is not known yet to be missing.
    lax = replace(schema, fields=tuple(replace(each, is_required=False) for each in schema.fields))
    decoded = decoding.from_json(changes, lax, kept, prefix)
    values = decoded.values()
    is_deletion = change["kind"] == DELETION
    taken = {name: _typed(envelope.part(path), each) for name, (path, each) in columns.from_envelope.items()}
    marks = [value.alias(name) for name, value in taken.items()]
    frame = decoded.frame.withColumn(_FROM_ENVELOPE, sql.struct(is_deletion.alias(DELETED), *marks))
    required = {each.name for each in schema.fields if each.is_required}
    missing = {
        **{name: values[name].isNull() & ~is_deletion for name in sorted(required - set(columns.keys))},
        **{name: values[name].isNull() for name in keys},
        **{name: value.isNull() for name, value in taken.items() if name in columns.sequence},
        **{name: values[name].isNull() for name in columns.sequence if name in values},
    }
    absent = _any(list(missing.values()))
    is_something = change["kind"] != NOTHING
    is_dead = sql.coalesce(is_something & (sql.col(DEAD) | (change["kind"] == REFUSED) | absent), sql.lit(False))
    reason = sql.coalesce(change["reason"], _no_key(change), _misfit(decoded), _said(missing), sql.lit("is no change"))
    more = (DELETED, *taken)
    return decoded._replace(
        frame=frame.withColumn(DEAD, is_dead),
        more={name: sql.col(_FROM_ENVELOPE)[name] for name in more},
        reason=reason,
        value=sql.col(_ORIGINAL),
        is_record=change["is_first"],
        is_row=is_something,
    )


def _no_key(change: Column) -> Column:
    from pyspark.sql import functions as sql

    is_deletion = change["kind"] == DELETION
    return sql.when(is_deletion & change["text"].isNull(), "a deletion without a key, in the value and in the record")


def _misfit(decoded: Decoded) -> Column:
    """The reason of values that do not fit, where it is one: the others fit, and something is missing."""
    from pyspark.sql import functions as sql

    assert decoded.reason is not None, "JSON may not fit"
    return sql.when(sql.col(decoding.DEAD), sql.nullif(decoded.reason, sql.lit(NO_FIT)))


def _typed(text: Column, field_: Field) -> Column:
    return text if field_.kind == "string" else text.try_cast(spark_name(field_.type))


def _any(conditions: Sequence[Column]) -> Column:
    from pyspark.sql import functions as sql

    return reduce(lambda one, other: one | other, conditions, sql.lit(False))


def _said(missing: Mapping[str, Column]) -> Column:
    from pyspark.sql import functions as sql

    reported = (sql.when(is_missing, f"{name} is missing") for name, is_missing in missing.items())
    return sql.nullif(sql.concat_ws(", ", *reported), sql.lit(""))
