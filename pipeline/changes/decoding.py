"""Makes rows of changes, and dead letters of records that are none; see `envelope.py`.

The rows have the columns of the schema, those taken from the envelope, the record's position, and the mark of
deletions. Of a deletion only the key has to fit, as databases send no more of a deleted row. A change without a key or
a sequence is a dead letter: it cannot be put in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from sordini.pipeline.changes import json_changes, registered_changes
from sordini.pipeline.changes.envelope import CHANGE, DELETION, KEY, NOTHING, REFUSED, Envelope
from sordini.pipeline.changes.keys import keys_of
from sordini.pipeline.changes.unavailable import UNSENT, unavailable
from sordini.pipeline.schemas import decoding
from sordini.pipeline.schemas.decoding import DEAD, Decoded
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.spark_expressions import NO_FIT, NULL
from sordini.pipeline.schemas.values.row_reader import REASON
from sordini.pipeline.tables.upsert import DELETED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sordini.pipeline.schemas.registered import RegisteredSchemas

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
    """Records whose values are JSON as changes; the rows also have DELETED."""
    from pyspark.sql import functions as sql

    original = records.withColumn(_ORIGINAL, sql.col("value"))
    keys = keys_of(columns.keys, schema)
    changes = json_changes.json_changes(original, kind, keys, has_sequence=bool(columns.sequence))
    decoded = decoding.from_json(changes, _lax(schema), kept, prefix)
    assert decoded.reason is not None, "JSON may not fit"
    taken = {name: json_changes.column_of(path, each) for name, (path, each) in columns.from_envelope.items()}
    # Where it says no more than that, something else is missing.
    says_more = ~decoded.reason.isin(NO_FIT, NULL)
    return _changes(decoded._replace(reason=sql.when(says_more, decoded.reason)), schema, kind, columns, taken)


def from_registered_changes(
    records: DataFrame,
    schema: Schema,
    kept: tuple[str, ...],
    kind: Envelope,
    columns: ChangeColumns,
    registered: RegisteredSchemas,
    prefix: str = "",
) -> Decoded:
    """Records whose values have the ids of schemas as changes; the rows also have DELETED."""
    from pyspark.sql import functions as sql

    original = records.withColumn(_ORIGINAL, sql.col("value"))
    keys = keys_of(columns.keys, schema)
    from_envelope = list(columns.from_envelope.values())
    changes = registered_changes.registered_changes(
        original, kind, _lax(schema), keys, from_envelope, registered, has_sequence=bool(columns.sequence)
    )
    names = tuple(each.name for each in schema.fields)
    is_dead = sql.col(REASON).isNotNull()
    decoded = Decoded(changes.withColumn(DEAD, is_dead), names, kept, sql.col(REASON), prefix=prefix)
    taken = {name: registered_changes.column_of(number) for number, name in enumerate(columns.from_envelope)}
    return _changes(decoded, schema, kind, columns, taken)


def _lax(schema: Schema) -> Schema:
    """The same with nothing required: what a deletion lacks is not known yet to be missing."""
    return replace(schema, fields=tuple(replace(each, is_required=False) for each in schema.fields))


def _changes(
    decoded: Decoded, schema: Schema, kind: Envelope, columns: ChangeColumns, taken: Mapping[str, Column]
) -> Decoded:
    """The rows of decoded changes, by what they are; DEAD says so far that the values of a change could not be read."""
    from pyspark.sql import functions as sql

    change, values = sql.col(CHANGE), decoded.values()
    is_deletion = change["kind"] == DELETION
    marks = [value.alias(name) for name, value in taken.items()]
    frame = decoded.frame.withColumn(_FROM_ENVELOPE, sql.struct(is_deletion.alias(DELETED), *marks))
    required = {each.name for each in schema.fields if each.is_required}
    missing = {
        **{name: values[name].isNull() & ~is_deletion for name in sorted(required - set(columns.keys))},
        **{name: values[name].isNull() for name in columns.keys if name in values},
        **{name: value.isNull() for name, value in taken.items() if name in columns.sequence},
        **{name: values[name].isNull() for name in columns.sequence if name in values},
    }
    unsent = unavailable(schema, values) if kind is Envelope.DEBEZIUM else {}
    unsent = {name: has_placeholder & ~is_deletion for name, has_placeholder in unsent.items()}
    absent = _any([*missing.values(), *(sql.coalesce(each, sql.lit(False)) for each in unsent.values())])
    is_something = change["kind"] != NOTHING
    is_dead = sql.coalesce(is_something & (sql.col(DEAD) | (change["kind"] == REFUSED) | absent), sql.lit(False))
    misfit = sql.when(sql.col(DEAD), decoded.reason)
    said = (_names(missing, " is missing"), sql.concat(_names(unsent), sql.lit(f": {UNSENT}")))
    reason = sql.coalesce(change["reason"], misfit, _no_key(change), *said, sql.lit("is no change"))
    return decoded._replace(
        frame=frame.withColumn(DEAD, is_dead),
        more={name: sql.col(_FROM_ENVELOPE)[name] for name in (DELETED, *taken)},
        reason=reason,
        value=sql.col(_ORIGINAL),
        is_record=change["is_first"],
        is_row=is_something,
    )


def _no_key(change: Column) -> Column:
    from pyspark.sql import functions as sql

    needs_key = (change["kind"] == DELETION) & (change["part"] == KEY)
    return sql.when(needs_key & sql.col("key").isNull(), "a deletion without a key, in the value and in the record")


def _any(conditions: Sequence[Column]) -> Column:
    from pyspark.sql import functions as sql

    return reduce(lambda one, other: one | other, conditions, sql.lit(False))


def _names(conditions: Mapping[str, Column], more: str = "") -> Column:
    """The names for which a condition is true, each with `more` behind it; null where there is none."""
    from pyspark.sql import functions as sql

    named = (sql.when(condition, f"{name}{more}") for name, condition in conditions.items())
    return sql.nullif(sql.concat_ws(", ", *named), sql.lit(""))
