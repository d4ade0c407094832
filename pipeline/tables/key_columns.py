"""Keys and sequence of rows under the same names, whatever the table calls its own.

key0, key1, ...        the key
order0, order1, ...    the sequence, the most significant first; none if the upsert has none
"""

from __future__ import annotations

import pyarrow as pa

from sordini.pipeline.tables.table import TableError
from sordini.pipeline.tables.upsert import Upsert


def plain_columns(rows: pa.Table, how: Upsert) -> pa.Table:
    """Keys and sequence of rows under the names above; a column that older files lack is null."""
    columns = {f"key{at}": rows.column(name) for at, name in enumerate(how.keys)}
    for at, name in enumerate(how.sequence):
        columns[f"order{at}"] = rows.column(name)
    return pa.table(columns)


def check_changes(changes: pa.Table, how: Upsert) -> None:
    """Check that a batch has no nulls in keys and sequence, and each key once. Raises TableError."""
    for name, column in zip((*how.keys, *how.sequence), changes.columns, strict=False):
        if column.null_count:
            raise TableError(
                f"{column.null_count} changes of the batch have no value in '{name}', which orders or names them"
            )
    keys = key_names(changes)
    if changes.select(keys).group_by(keys).aggregate([]).num_rows != changes.num_rows:
        raise TableError(f"the batch has more than one change of a key ({', '.join(how.keys)}): it was not collapsed")


def key_names(rows: pa.Table) -> list[str]:
    """The columns of the key."""
    return [name for name in rows.column_names if name.startswith("key")]


def order_names(rows: pa.Table) -> list[str]:
    """The columns of the sequence, the most significant first."""
    return [name for name in rows.column_names if name.startswith("order")]
