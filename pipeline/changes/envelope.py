"""What a record says: Debezium's envelope, or plain records whose value is the row.

    op     before         after        what it is
    c, r               -  the row      the row (r: of a snapshot)
    u      the row or -   the row      the row; if a key in `before` is another, also the deletion of that
    d      the row, or its key   -     the deletion; the record's key names it where `before` does not
    t                  -  -            refused: the rows of the whole source table were deleted, which no key names

The envelope is the value itself, or its `payload` beside a `schema`. A value that is null (a tombstone, after a
deletion) deletes what the record's key names; with a sequence it does nothing, as it has none, and the deletion before
it had one. Records of Debezium's topics of transactions have a `status` and no `op`: they are nothing.

A plain record is the row, its null value a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Envelope(Enum):
    """How values are changes."""

    NONE = "none"
    DEBEZIUM = "debezium"


ENVELOPE, CHANGE = "_envelope", "_change"
"""Columns: the parsed envelope; one change, a struct of the fields below."""
ROW, DELETION, NOTHING, REFUSED = "row", "deletion", "nothing", "refused"
"""What a change is, its field `kind`; `text` has the JSON of the row or of its key."""

TRUNCATED: Final = "the source table was truncated (op t): no key names its rows, load the table again"
_PARTS: Final = ("op", "before", "after", "source", "transaction", "status", "ts_ms")


def changes_of(records: DataFrame, envelope: Envelope, keys: Sequence[str], *, has_sequence: bool) -> DataFrame:
    """A row for each change, with the record's columns, CHANGE, and for Debezium ENVELOPE."""
    from pyspark.sql import functions as sql

    text = sql.col("value").cast("string")
    if envelope is Envelope.NONE:
        kind = sql.when(text.isNull(), DELETION).otherwise(ROW)
        return records.withColumn(CHANGE, _change(kind, sql.coalesce(text, _key_text(keys)), is_first=True))
    parts = ", ".join(f"{name} string" for name in _PARTS)
    parsed = sql.from_json(text, f"{parts}, payload struct<{parts.replace(' string', ': string')}>")
    found = sql.col(ENVELOPE)
    opened = {
        name: sql.when(found["payload"].isNotNull(), found["payload"][name]).otherwise(found[name]) for name in _PARTS
    }
    with_parts = records.withColumn(ENVELOPE, parsed).withColumn(
        ENVELOPE, sql.struct(*(value.alias(name) for name, value in opened.items()))
    )
    first = _debezium_change(sql.col(ENVELOPE), keys, has_sequence=has_sequence)
    moved = _change(sql.lit(DELETION), found["before"], is_first=False)
    both = sql.when(_has_moved(found, keys), sql.array(first, moved)).otherwise(sql.array(first))
    return with_parts.withColumn(CHANGE, sql.explode(both))


def part(path: str) -> Column:
    """The text of a part of Debezium's envelope, such as `source.lsn`; null where it is missing."""
    from pyspark.sql import functions as sql

    first, _, rest = path.partition(".")
    column = sql.col(ENVELOPE)[first]
    return sql.get_json_object(column, f"$.{rest}") if rest else column


def is_part(path: str) -> bool:
    """Whether a path begins with a part of the envelope."""
    return path.partition(".")[0] in _PARTS


def _debezium_change(found: Column, keys: Sequence[str], *, has_sequence: bool) -> Column:
    """The change of a record. One whose value is no envelope at all is a row, which decoding finds a reason for."""
    from pyspark.sql import functions as sql

    op, is_null = found["op"], sql.col("value").isNull()
    tombstone = NOTHING if has_sequence else DELETION
    kind = (
        sql.when(is_null, tombstone)
        .when(op.isin("c", "r", "u"), ROW)
        .when(op == "d", DELETION)
        .when(op.isNull() & found["status"].isin("BEGIN", "END"), NOTHING)
        .otherwise(REFUSED)
    )
    named = sql.when(op == "d", sql.when(_has_keys(found["before"], keys), found["before"]).otherwise(_key_text(keys)))
    text = sql.when(is_null, _key_text(keys)).otherwise(sql.coalesce(named, found["after"]))
    reason = (
        sql.when(op == "t", TRUNCATED)
        .when(op.isNull(), "no change of Debezium's: it has no op")
        .when(~op.isin("c", "r", "u", "d"), sql.concat(sql.lit("op "), op, sql.lit(" is none of c, u, d, r, t")))
        .when(
            op.isin("c", "r", "u") & found["after"].isNull(), sql.concat(sql.lit("op "), op, sql.lit(" without after"))
        )
    )
    return _change(
        sql.when(reason.isNotNull() & ~is_null & (kind != NOTHING), REFUSED).otherwise(kind), text, True, reason
    )


def _change(kind: Column, text: Column, is_first: bool, reason: Column | None = None) -> Column:  # noqa: FBT001
    from pyspark.sql import functions as sql

    no_reason = sql.lit(None).cast("string")
    return sql.struct(
        kind.alias("kind"),
        text.alias("text"),
        sql.lit(is_first).alias("is_first"),
        (no_reason if reason is None else reason).alias("reason"),
    )


def _has_moved(found: Column, keys: Sequence[str]) -> Column:
    """Whether an update changes a key. A `before` that lacks one says nothing of it."""
    from pyspark.sql import functions as sql

    def differs(name: str) -> Column:
        return sql.coalesce(_field(found["before"], name) != _field(found["after"], name), sql.lit(False))

    any_differs = differs(keys[0])
    for name in keys[1:]:
        any_differs = any_differs | differs(name)
    is_update = sql.coalesce((found["op"] == "u") & found["after"].isNotNull(), sql.lit(False))
    return is_update & _has_keys(found["before"], keys) & any_differs


def _has_keys(text: Column, keys: Sequence[str]) -> Column:
    from pyspark.sql import functions as sql

    found = _field(text, keys[0]).isNotNull()
    for name in keys[1:]:
        found = found & _field(text, name).isNotNull()
    return sql.coalesce(found, sql.lit(False))


def _key_text(keys: Sequence[str]) -> Column:
    """The record's key as a JSON object with the key's fields. A key that is a single value is the only key's."""
    from pyspark.sql import functions as sql

    text = sql.col("key").cast("string")
    payload = sql.coalesce(sql.get_json_object(text, "$.payload"), text)
    if len(keys) > 1:
        return payload
    is_object = sql.startswith(sql.ltrim(payload), sql.lit("{"))
    is_value = sql.startswith(sql.ltrim(payload), sql.lit('"')) | payload.try_cast("double").isNotNull()
    of_value = sql.concat(sql.lit(f'{{"{keys[0]}":'), payload, sql.lit("}"))
    return (
        sql.when(is_object, payload)
        .when(is_value, of_value)
        .when(payload.isNotNull(), sql.to_json(sql.struct(payload.alias(keys[0]))))
    )


def _field(text: Column, name: str) -> Column:
    from pyspark.sql import functions as sql

    return sql.get_json_object(text, f"$.{name}")
