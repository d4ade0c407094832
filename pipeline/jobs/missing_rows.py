"""Which rows a table has not got, by the record that they were made of or by other columns."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from sordini.pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IDENTITY: Final = ("topic", "partition", "offset")
"""What every row keeps of its record."""


def anti_join(rows: DataFrame, others: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Rows that have no equal in `others` by these columns; nulls are equal to each other."""

    def equal(name: str) -> Column:
        return rows[name].eqNullSafe(others[name])

    return rows.join(others, reduce(lambda one, other: one & other, map(equal, keys)), "left_anti")


def rows_missing_from(table: Table, rows: DataFrame, first: int, end: int) -> DataFrame:
    """Those rows whose record the table has not got; the offsets of all are from `first` to before `end`."""
    from pyspark.sql import functions as sql

    if table.schema() is None:
        return rows
    there = table.read(rows.sparkSession).select(*IDENTITY)
    # Parquet's statistics leave out whole files by this.
    return anti_join(rows, there.where((sql.col("offset") >= first) & (sql.col("offset") < end)), IDENTITY)
