"""Stages the changes of an upsert: rows as in `append`, and beside them files of the deletions.

A file of deletions has the columns of keys and sequence only. It is what the driver learns the deletions from; a table
that has to remember them may keep it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.tables.columns import aligned
from sordini.pipeline.tables.staging import Staged, StagingPlan, staged_by, write
from sordini.pipeline.tables.upsert import Upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StagedChanges(NamedTuple):
    """The files of a batch of changes."""

    rows: list[Staged]
    deletions: list[Staged]

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.rows)


def row_schema(schema: pa.Schema, how: Upsert) -> pa.Schema:
    """The columns of the rows: all but the mark of deletions."""
    return pa.schema([field for field in schema if field.name != how.deleted])


def deletion_schema(schema: pa.Schema, how: Upsert) -> pa.Schema:
    """The columns of a file of deletions, in the table's order."""
    return pa.schema([field for field in schema if field.name in {*how.keys, *how.sequence}])


def stage_changes(frame: DataFrame, plan: StagingPlan, how: Upsert) -> StagedChanges:
    """Run the frame, and write its rows and deletions; `plan` is that of the table's rows."""
    columns = deletion_schema(plan.schema, how)
    deletion_plan = replace(plan, schema=columns, partition_by=(), deleted_at=int(time.time()))

    def write_both(batches: Iterable[pa.RecordBatch]) -> Iterator[Staged]:
        deletions: list[pa.RecordBatch] = []

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                marks = pc.fill_null(batch.column(how.deleted), False)
                deletions.append(aligned(batch.filter(marks), deletion_plan.schema))
                yield batch.filter(pc.invert(marks))

        yield from write(rows(), plan)
        # Marked by a negative number of rows on the way to the driver.
        for file in write((batch for batch in deletions if batch.num_rows), deletion_plan):
            yield file._replace(rows=-file.rows)

    staged = staged_by(frame, write_both)
    deletions = [file._replace(rows=-file.rows) for file in staged if file.rows < 0]
    return StagedChanges([file for file in staged if file.rows > 0], deletions)
