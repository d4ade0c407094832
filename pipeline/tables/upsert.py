"""What an upsert is: a batch of changes leaves the newest row of each key in the table, and none of a deleted one.

A change is a row, or the deletion of a row, of a key at a sequence:

    id   sequence   _deleted   name
    1    10         false      Ada        the row of key 1 is replaced, or inserted
    2    11         true       null       the row of key 2 is deleted, if there is one

A batch has one change for each key at most: the newest, as collapsed by the caller. **A change is late** when the table
knows a change of its key with a greater sequence; it is counted (`Written.late`) and changes nothing. An equal sequence
is not late: the same change that is delivered twice has the same effect twice, and of two different ones the later
batch is the newer. Sequences of several columns are compared column by column, in their order. Without a sequence a
batch is newer than every batch before it, and nothing is late: right for a source that is read in its order.

What a table knows of a key is the sequence of its row or, if that was deleted, of the deletion: otherwise a late
change would insert a deleted row again. Deletions are remembered with the sequence, also those of keys that the table
does not have, for at least `deletions_kept_seconds` after their commit, where no reader sees them. A change that is
later than that inserts the row again. Nothing is remembered where there is no sequence: nothing can be late.

**One commit** removes the former rows, adds the new ones, remembers the deletions and notes the batch with its offsets.
A repeated batch is recognised by the note, as in `append`. If another writer commits first, the batch is compared
with the table again: a row that compaction has moved is found where it is now.

The table's columns are those of the frame without `deleted`. Keys are equal as values of their types: texts by their
bytes, decimals by value; floating-point numbers are no keys. The table stores the names of its keys: an upsert by
other keys is refused, and so is `append` to a table of upserts, which would make a second row of a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.table import DAY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

DELETED: Final = "_deleted"
"""The default name of the column that marks deletions."""

DELETIONS_KEPT_SECONDS: Final = 7 * DAY_SECONDS

INDEXED_KEYS_MAX: Final = 30_000_000
"""1.4 GB of the driver with a sequence of 8 bytes, a partition and an offset, and for moments twice as much."""


@dataclass(frozen=True)
class Upsert:
    """How a batch is upserted."""

    keys: tuple[str, ...]
    """The columns that identify a row; none of their values is null."""
    sequence: tuple[str, ...] = ()
    """The columns that order the changes of a key, the most significant first; none of their values is null. Both are
    columns of the table."""
    deleted: str = DELETED
    """A column of booleans of the frame: true deletes. Of a deletion only keys and sequence are read."""
    deletions_kept_seconds: float = DELETIONS_KEPT_SECONDS
    indexed_keys_max: int = INDEXED_KEYS_MAX
    """A table of more rows and remembered deletions has no index of its keys in memory: each batch reads the keys of
    the files that may have its own."""


def check_upsert(how: Upsert, schema: pa.Schema) -> None:
    """Check that a frame of these columns (with `deleted`) can be upserted. Raises BadSetting."""
    if not how.keys:
        raise BadSetting("an upsert needs keys: the columns that identify a row")
    for what, names in (("key", how.keys), ("sequence", how.sequence), ("mark of deletions", (how.deleted,))):
        for name in names:
            if name not in schema.names:
                raise BadSetting(f"the {what} '{name}' is no column of the rows, which have {', '.join(schema.names)}")
    if not pa.types.is_boolean(schema.field(how.deleted).type):
        raise BadSetting(f"the mark of deletions '{how.deleted}' is {schema.field(how.deleted).type}, not a boolean")
    for what, names in (("key", how.keys), ("sequence", how.sequence)):
        for name in names:
            if not _has_order(schema.field(name).type) or (what == "key" and _is_float(schema.field(name).type)):
                raise BadSetting(f"the {what} '{name}' is {schema.field(name).type}, which cannot be a {what}")


def check_stored_keys(stored: Sequence[str] | None, how: Upsert, location: str) -> None:
    """Check the keys that a table stores, None if it stores none. Raises BadSetting."""
    if stored is None:
        raise BadSetting(f"{location} has rows that were appended, without keys: upsert into another table")
    if tuple(stored) != how.keys:
        raise BadSetting(
            f"{location} has one row for each {', '.join(stored)}, not for each {', '.join(how.keys)}: other keys need "
            "another table"
        )


def refuse_append(location: str, stored: Sequence[str]) -> BadSetting:
    """The error of `append` to a table of upserts."""
    return BadSetting(
        f"{location} has one row for each {', '.join(stored)}, which appended rows would not respect: use an "
        "upsert, or another table"
    )


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind))


def _has_order(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))
