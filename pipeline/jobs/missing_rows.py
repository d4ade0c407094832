"""Finds the rows that a table lacks, by the record they were made of or by other columns."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from sordini.pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IDENTITY: Final = ("topic", "partition", "offset")
"""The columns that identify a row's record."""


def anti_join(rows: DataFrame, others: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Rows without an equal in `others` by these columns; nulls are equal."""

    def equal(name: str) -> Column:
        return rows[name].eqNullSafe(others[name])

    return rows.join(others, reduce(lambda one, other: one & other, map(equal, keys)), "left_anti")


def rows_missing_from(table: Table, rows: DataFrame, first: int, end: int) -> DataFrame:
    """The rows whose record is not in the table; all offsets are in [first, end)."""
    from pyspark.sql import functions as sql

    if table.schema() is None:
        return rows
    there = table.read(rows.sparkSession).select(*IDENTITY)
    # Parquet statistics let the reader skip whole files.
    return anti_join(rows, there.where((sql.col("offset") >= first) & (sql.col("offset") < end)), IDENTITY)
