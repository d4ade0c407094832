"""Writes a batch to a table of any kind: read its state, stage, commit; start over if another writer was faster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.batch_upsert import StagedChanges, row_schema, stage_changes
from sordini.pipeline.tables.columns import arrow_schema, check_partitions, merged
from sordini.pipeline.tables.key_places import RepeatedKeys
from sordini.pipeline.tables.object_storage import ObjectStorage
from sordini.pipeline.tables.staging import FileSettings, Staged, StagingPlan, stage
from sordini.pipeline.tables.store_client import in_store, store_errors
from sordini.pipeline.tables.table import Offsets, TableError, Written
from sordini.pipeline.tables.upsert import Upsert, check_stored_keys, check_upsert, refuse_append
from sordini.pipeline.tables.widening import is_widened
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
    keys: tuple[str, ...] | None = None
    """Of a table of upserts."""


class BatchTable(ABC):
    """A table of any kind, see `Table`; the abstract methods are what differs between kinds."""

    no_upserts = "this kind of table has no upserts"
    """The reason why a kind of table refuses them; empty if it has `commit_upsert`."""

    def __init__(
        self,
        location: str,
        storage: ObjectStorage,
        app_id: str,
        partition_by: tuple[str, ...],
        settings: FileSettings,
        folder: Path | None,
    ) -> None:
        """`folder` is that of the location, if it is a local one."""
        self.location = location
        self.storage = storage
        self.app_id = app_id
        self.partition_by = partition_by
        self.attempts = WriteAttempts(folder, app_id)
        self._settings = settings

    def reporting(self) -> AbstractContextManager[None]:
        """Raises what a store refuses as StoreError, which names the location."""
        return store_errors(self.location, self.storage)

    @in_store
    def append(
        self,
        frame: DataFrame,
        batch_id: int,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        return append(self, frame, WriterPosition(batch_id, offsets or {}), before_commit)

    @in_store
    def upsert(
        self,
        frame: DataFrame,
        batch_id: int,
        how: Upsert,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        if self.no_upserts:
            raise BadSetting(f"{self.location}: {self.no_upserts}")
        return upsert(self, frame, WriterPosition(batch_id, offsets or {}), how, before_commit)

    @in_store
    def last(self) -> tuple[int, Offsets] | None:
        return self.read_state().note

    @in_store
    def schema(self) -> pa.Schema | None:
        return self.read_state().schema

    @abstractmethod
    def read_state(self) -> TableState:
        """The current state of the table."""

    @abstractmethod
    def check(self, columns: pa.Schema, *, upserts: bool) -> None:
        """Check that the table, as it was read last, takes rows of these columns, or changes of them.

        Raises TableError. A table that is to be created takes all.
        """

    @abstractmethod
    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        """How to stage files; a new attempt with each call."""

    @abstractmethod
    def commit(self, staged: list[Staged], schema: pa.Schema, note: WriterPosition) -> bool:
        """Commit the files, the columns and the note on top of the state that `read_state` returned last, atomically.

        False if the table has changed since.
        """

    def commit_upsert(
        self, staged: StagedChanges, schema: pa.Schema, note: WriterPosition, how: Upsert
    ) -> Written | None:
        """As `commit`, with changes; None if the table has changed since. Raises TableError for impossible changes."""
        del staged, schema, note, how
        raise BadSetting(f"{self.location}: {self.no_upserts}")

    @abstractmethod
    def discard(self, attempts: set[str]) -> None:
        """Delete the files of attempts that were never committed."""


def append(
    table: BatchTable, frame: DataFrame, note: WriterPosition, before_commit: Callable[[], object] | None = None
) -> Written:
    """See `Table.append`."""
    return _write(table, _Append(table, frame), note, before_commit)


def upsert(
    table: BatchTable,
    frame: DataFrame,
    note: WriterPosition,
    how: Upsert,
    before_commit: Callable[[], object] | None = None,
) -> Written:
    """See `Table.upsert`."""
    check_upsert(how, arrow_schema(frame.schema))
    return _write(table, _Upsert(table, frame, how), note, before_commit)


class _Change(Protocol):
    """What is written: rows that are added, or changes."""

    columns: pa.Schema
    """Of the frame, as far as they are the table's."""

    def check(self, state: TableState) -> None:
        """Raises PipelineError if the table does not suit, as it was read last."""
        ...

    def stage(self, plan: StagingPlan) -> None:
        """Run the frame and write its files."""
        ...

    def commit(self, schema: pa.Schema, note: WriterPosition) -> Written | None:
        """None if the table has changed since `read_state`."""
        ...


class _Append:
    def __init__(self, table: BatchTable, frame: DataFrame) -> None:
        self.columns = arrow_schema(frame.schema)
        self._table = table
        self._frame = frame
        self._staged: list[Staged] = []

    def check(self, state: TableState) -> None:
        if state.keys is not None:
            raise refuse_append(self._table.location, state.keys)
        self._table.check(self.columns, upserts=False)

    def stage(self, plan: StagingPlan) -> None:
        self._staged = stage(self._frame, plan)

    def commit(self, schema: pa.Schema, note: WriterPosition) -> Written | None:
        if not self._table.commit(self._staged, schema, note):
            return None
        rows, size = sum(each.rows for each in self._staged), sum(each.bytes for each in self._staged)
        return Written(rows, len(self._staged), size, was_there=False)


class _Upsert:
    def __init__(self, table: BatchTable, frame: DataFrame, how: Upsert) -> None:
        self.columns = row_schema(arrow_schema(frame.schema), how)
        self._table = table
        self._frame = frame
        self._how = how
        self._staged = StagedChanges([], [])

    def check(self, state: TableState) -> None:
        if state.schema is not None:
            check_stored_keys(state.keys, self._how, self._table.location)
        self._table.check(self.columns, upserts=True)

    def stage(self, plan: StagingPlan) -> None:
        self._staged = stage_changes(self._frame, plan, self._how)

    def commit(self, schema: pa.Schema, note: WriterPosition) -> Written | None:
        try:
            return self._table.commit_upsert(self._staged, schema, note, self._how)
        except RepeatedKeys as error:
            raise TableError(f"{self._table.location} {error}") from error


def _write(
    table: BatchTable, change: _Change, note: WriterPosition, before_commit: Callable[[], object] | None
) -> Written:
    state = table.read_state()
    change.check(state)
    if is_written(table.app_id, state.note, note):
        _delete_given_up(table, note.batch_id)
        return WRITTEN_BEFORE
    partition_by = partitions(table.partition_by, state)
    schema = merged(state.schema, change.columns)
    check_partitions(schema, partition_by)
    plan = _staged(table, change, schema, partition_by, note.batch_id)
    if before_commit is not None:
        before_commit()
    for _ in range(COMMIT_TRIES):
        gone: FileNotFoundError | None = None
        try:
            if written := change.commit(schema, note):
                _delete_given_up(table, note.batch_id, plan.attempt)
                return written
        except FileNotFoundError as problem:  # Another writer has written this batch and removed other attempts.
            gone = problem
        before, state = state, table.read_state()
        _check_not_rolled_back(table, before.note, state.note)
        if is_written(table.app_id, state.note, note):
            _delete_given_up(table, note.batch_id)
            return WRITTEN_BEFORE
        if gone:
            raise gone
        change.check(state)
        if state.schema is not None and state.partition_by != partition_by:
            by = ", ".join(state.partition_by) or "nothing"
            raise TableError(f"{table.location} was made anew, partitioned by {by}, while a batch was written")
        schema = merged(state.schema, schema)
        if is_widened(plan.schema, schema):  # By another writer: what is staged has the narrower type.
            plan = _staged(table, change, schema, partition_by, note.batch_id)
    raise TableError(f"batch {note.batch_id} was not committed: {COMMIT_TRIES} times another writer was faster")


def _staged(
    table: BatchTable, change: _Change, schema: pa.Schema, partition_by: tuple[str, ...], batch_id: int
) -> StagingPlan:
    """Run the frame, and write its files with these columns; an attempt of its own."""
    plan = table.plan(schema, partition_by)
    table.attempts.begin(plan.attempt, batch_id)
    change.stage(plan)
    return plan


def _check_not_rolled_back(table: BatchTable, before: WriterPosition | None, now: WriterPosition | None) -> None:
    """Raises TableError if the table has lost batches since it was read: one more would leave a gap."""
    if before is not None and (now is None or now.batch_id < before.batch_id):
        lost = "all batches" if now is None else f"the batches after {now.batch_id}"
        raise TableError(
            f"{table.location} was restored or rolled back while a batch was written, and lacks {lost} of "
            f"'{table.app_id}': run the command again, which continues where the table ends now"
        )


def _delete_given_up(table: BatchTable, batch_id: int, committed: str | None = None) -> None:
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
