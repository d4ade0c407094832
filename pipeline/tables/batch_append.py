"""Appends a batch to a table of any kind: read its state, stage, commit; start over if another writer was faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.columns import arrow_schema, check_partitions, merged
from sordini.pipeline.tables.staging import Staged, StagingPlan, stage
from sordini.pipeline.tables.table import TableError, Written
from sordini.pipeline.tables.write_attempts import WriteAttempts
from sordini.pipeline.tables.writer_positions import WriterPosition, is_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMMIT_TRIES = 20

WRITTEN_BEFORE = Written(rows=0, files=0, bytes=0, was_there=True)


class TableState(NamedTuple):
    """The state of a table when it was read; `schema` is None before the table exists."""

    schema: pa.Schema | None
    partition_by: tuple[str, ...]
    note: WriterPosition | None
    """Of this app_id."""


class Format(Protocol):
    """The operations that differ between kinds of tables."""

    app_id: str
    partition_by: tuple[str, ...]
    attempts: WriteAttempts

    def read_state(self) -> TableState:
        """The current state of the table."""
        ...

    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        """How to stage files; a new attempt with each call."""
        ...

    def commit(self, staged: list[Staged], schema: pa.Schema, note: WriterPosition) -> bool:
        """Commit the files, the columns and the note on top of the state that `look` returned last, atomically.

        False if the table has changed since.
        """
        ...

    def discard(self, attempts: set[str]) -> None:
        """Delete the files of attempts that were never committed."""
        ...


def append(
    table: Format, frame: DataFrame, note: WriterPosition, before_commit: Callable[[], object] | None = None
) -> Written:
    """See `Table.append`."""
    state = table.read_state()
    if is_written(table.app_id, state.note, note):
        _delete_given_up(table, note.batch_id)
        return WRITTEN_BEFORE
    partition_by = partitions(table.partition_by, state)
    schema = merged(state.schema, arrow_schema(frame.schema))
    check_partitions(schema, partition_by)
    plan = table.plan(schema, partition_by)
    table.attempts.begin(plan.attempt, note.batch_id)
    staged = stage(frame, plan)
    if before_commit is not None:
        before_commit()
    for _ in range(COMMIT_TRIES):
        gone: FileNotFoundError | None = None
        try:
            if table.commit(staged, schema, note):
                _delete_given_up(table, note.batch_id, plan.attempt)
                size = sum(each.bytes for each in staged)
                return Written(sum(each.rows for each in staged), len(staged), size, was_there=False)
        except FileNotFoundError as problem:  # Another writer has written this batch and removed other attempts.
            gone = problem
        state = table.read_state()
        if is_written(table.app_id, state.note, note):
            _delete_given_up(table, note.batch_id)
            return WRITTEN_BEFORE
        if gone:
            raise gone
        schema = merged(state.schema, schema)
    raise TableError(f"batch {note.batch_id} was not committed: {COMMIT_TRIES} times another writer was faster")


def _delete_given_up(table: Format, batch_id: int, committed: str | None = None) -> None:
    """Delete files left by attempts to write this batch, which is in the table now, or earlier ones."""
    over = table.attempts.until(batch_id)
    if given_up := over - {committed}:
        table.discard(given_up)
    table.attempts.forget(over)


def partitions(asked: tuple[str, ...], state: TableState) -> tuple[str, ...]:
    """The columns by which the table is partitioned, or will be."""
    if state.schema is None:
        return asked
    if asked and asked != state.partition_by:
        there = ", ".join(state.partition_by) or "nothing"
        raise BadSetting(f"the table is partitioned by {there}, not by {', '.join(asked)}")
    return state.partition_by
