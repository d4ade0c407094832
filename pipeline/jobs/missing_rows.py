"""Finds the rows that a table lacks, by the record they were made of or by other columns."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from sordini.pipeline.jobs.source_topics import Offsets
from sordini.pipeline.schemas.fields import RECORD, RecordColumns
from sordini.pipeline.tables import Table
from sordini.pipeline.tables.arrow_reading import Within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IDENTITY: Final = RECORD.identity
"""The columns that identify a source's record."""


def anti_join(rows: DataFrame, others: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Rows without an equal in `others` by these columns; nulls are equal."""

    def equal(name: str) -> Column:
        return rows[name].eqNullSafe(others[name])

    return rows.join(others, reduce(lambda condition, other: condition & other, map(equal, keys)), "left_anti")


def rows_missing_from(table: Table, rows: DataFrame, first: int, end: int, record: RecordColumns = RECORD) -> DataFrame:
    """The rows whose record is not in the table, which has its position in `record`; offsets are in [first, end)."""
    from pyspark.sql import functions as sql

    if table.schema() is None:
        return rows
    # The files' statistics let the reader skip whole files.
    there = table.read(rows.sparkSession, columns=record.identity, within=Within(record.offset, first, end))
    # The rows' own columns may have other names: a backfill looks for records before they are decoded.
    renamed = (sql.col(ours).alias(theirs) for ours, theirs in zip(record.identity, IDENTITY, strict=True))
    return anti_join(rows, there.select(*renamed), IDENTITY)


def records_after(records: DataFrame, position: Offsets) -> DataFrame:
    """The records, or their dead letters, from a position on; all of the partitions that it does not have."""
    from pyspark.sql import functions as sql

    condition = sql.lit(True)
    for topic, partitions in position.items():
        for number, at in partitions.items():
            here = (sql.col("topic") == topic) & (sql.col("partition") == number)
            condition = condition & (~here | (sql.col("offset") >= at))
    return records.where(condition)
