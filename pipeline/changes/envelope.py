"""What a record says: Debezium's envelope, or plain records whose value is the row.

    op     before         after        what it is
    c, r               -  the row      the row (r: of a snapshot)
    u      the row or -   the row      the row; if a key in `before` is another, also the deletion of that
    d      the row, or its key   -     the deletion; the record's key names it where `before` does not
    t                  -  -            refused: the rows of the whole source table were deleted, which no key names

A value that is null (a tombstone, after a deletion) deletes what the record's key names; with a sequence it does
nothing, as it has none, and the deletion before it had one. Records of Debezium's topics of transactions have a
`status` and no `op`: they are nothing. A plain record is the row, its null value a deletion.

This is the meaning alone, of facts that are expressions over a record's columns. `json_changes.py` has the facts of
values that are JSON, `registered_changes.py` those of values with the ids of schemas.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Envelope(Enum):
    """How values are changes."""

    NONE = "none"
    DEBEZIUM = "debezium"


ENVELOPE, CHANGE = "_envelope", "_change"
"""Columns: what was read of the value; one change, a struct of the fields below."""
ROW, DELETION, NOTHING, REFUSED = "row", "deletion", "nothing", "refused"
"""What a change is, its field `kind`. `reason` says why it is refused; `is_first` whether it is the record's first."""
AFTER, BEFORE, KEY = "after", "before", "key"
"""Which part of a record has the row or its key, the field `part`. Of a plain record AFTER is the value itself."""
PARTS: Final = ("op", "before", "after", "source", "transaction", "status", "ts_ms")
"""Of Debezium's envelope, and of its records of transactions."""

TRUNCATED: Final = "the source table was truncated (op t): no key names its rows, load the table again"


class Facts(NamedTuple):
    """What a record has; `op`, `status` and `unreadable` may be null, the others are true or false."""

    is_null: Column
    """Whether the value is."""
    op: Column
    status: Column
    has_after: Column
    has_keys: Column
    """Whether `before` has the whole key."""
    has_moved: Column
    """Whether `before` has the whole key, and `after` another one."""
    unreadable: Column
    """Why the value could not be read at all."""


def plain_changes(records: DataFrame) -> DataFrame:
    """The records with CHANGE, of plain records: each is one change."""
    from pyspark.sql import functions as sql

    is_null = sql.col("value").isNull()
    kind, part = (sql.when(is_null, one).otherwise(other) for one, other in ((DELETION, ROW), (KEY, AFTER)))
    return records.withColumn(CHANGE, _change(kind, part, is_first=True))


def debezium_changes(records: DataFrame, facts: Facts, *, has_sequence: bool) -> DataFrame:
    """A row for each change, with the record's columns and CHANGE."""
    from pyspark.sql import functions as sql

    first = _debezium_change(facts, has_sequence=has_sequence)
    moved = _change(sql.lit(DELETION), sql.lit(BEFORE), is_first=False)
    is_moved = (facts.op == "u") & facts.has_after & facts.has_moved
    both = sql.when(is_moved, sql.array(first, moved)).otherwise(sql.array(first))
    return records.withColumn(CHANGE, sql.explode(both))


def is_part(path: str) -> bool:
    """Whether a path begins with a part of the envelope."""
    return path.partition(".")[0] in PARTS


def all_of(conditions: Iterable[Column]) -> Column:
    """Whether all conditions are true; null is not."""
    from pyspark.sql import functions as sql

    return sql.coalesce(reduce(lambda one, other: one & other, conditions), sql.lit(False))


def _debezium_change(facts: Facts, *, has_sequence: bool) -> Column:
    from pyspark.sql import functions as sql

    op = facts.op
    is_nothing = sql.coalesce(op.isNull() & facts.status.isin("BEGIN", "END"), sql.lit(False))
    reason = (
        sql.when(facts.is_null | is_nothing, sql.lit(None).cast("string"))
        .when(facts.unreadable.isNotNull(), facts.unreadable)
        .when(op == "t", TRUNCATED)
        .when(op.isNull(), "no change of Debezium's: it has no op")
        .when(~op.isin("c", "r", "u", "d"), sql.concat(sql.lit("op "), op, sql.lit(" is none of c, u, d, r, t")))
        .when((op != "d") & ~facts.has_after, sql.concat(sql.lit("op "), op, sql.lit(" without after")))
    )
    kind = (
        sql.when(facts.is_null, NOTHING if has_sequence else DELETION)
        .when(is_nothing, NOTHING)
        .when(reason.isNotNull(), REFUSED)
        .when(op == "d", DELETION)
        .otherwise(ROW)
    )
    is_deletion = op == "d"
    part = sql.when(facts.is_null | (is_deletion & ~facts.has_keys), KEY).when(is_deletion, BEFORE).otherwise(AFTER)
    return _change(kind, part, is_first=True, reason=reason)


def _change(kind: Column, part: Column, *, is_first: bool, reason: Column | None = None) -> Column:
    from pyspark.sql import functions as sql

    no_reason = sql.lit(None).cast("string")
    return sql.struct(
        kind.alias("kind"),
        part.alias("part"),
        sql.lit(is_first).alias("is_first"),
        (no_reason if reason is None else reason).alias("reason"),
    )
