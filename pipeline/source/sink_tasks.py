"""What the sink does in tasks and on the driver, for every interface of Spark's.

Without a transactional id, tasks write to the topics themselves, at least once (`record_writer`). With one, tasks stage
their records in files (`staged_records`), and the driver writes a batch as one transaction (`transaction_writer`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.sink_options import SinkOptions

if TYPE_CHECKING:
    from sordini.pipeline.source.staged_records import StagedFile

log = logging.getLogger(__name__)

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's local properties of a micro-batch's tasks; the query's id is that of its checkpoint."""


@dataclass
class Acknowledged(WriterCommitMessage):
    """How many records one task has written."""

    records: int


@dataclass
class Prepared(WriterCommitMessage):
    """What one task has staged, None without rows; `query` is Spark's id of the streaming query."""

    file: StagedFile | None
    query: str = ""


@dataclass(frozen=True)
class BatchTasks:
    """One frame; `folder` is that of its staged files."""

    options: SinkOptions
    folder: str

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or stage the rows of one task; raises NotWritten, NotStaged, Unauthorized, Unreachable."""
        if self.options.transaction is None:
            return _write(batches, self.options)
        return Prepared(_stage(batches, self.folder, self.options))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write what was staged as one transaction."""
        from sordini.pipeline.source.transaction_writer import write_once

        if self.options.transaction is not None:
            write_once(_files(messages), self.folder, self.options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what a failed job leaves behind."""
        _warn(messages)


@dataclass(frozen=True)
class StreamTasks:
    """The micro-batches of a query: at least once, or exactly once in transactions."""

    options: SinkOptions

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or stage the rows of one task; raises NotWritten, NotStaged, Unauthorized, Unreachable."""
        if self.options.transaction is None:
            return _write(batches, self.options)
        task = TaskContext.get()
        query, batch_id = (task and task.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID))
        if not query or not batch_id:
            raise PipelineError(f"Spark does not say which micro-batch a task belongs to ({_QUERY_ID}, {_BATCH_ID})")
        return Prepared(_stage(batches, batch_id, self.options), query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Write what was staged as one transaction, unless the batch is committed already."""
        from sordini.pipeline.source.transaction_writer import write_batch

        if self.options.transaction is None:
            return
        queries = {message.query for message in messages if isinstance(message, Prepared)}
        if queries:
            (query,) = queries
            write_batch(_files(messages), batch_id, query, self.options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what a failed micro-batch leaves behind."""
        _warn(messages)


def _write(iterator: Iterator[pa.RecordBatch], options: SinkOptions) -> Acknowledged:
    # A late import: reading workers import this module as well, and aiokafka is slow to import.
    from sordini.pipeline.source.record_writer import write_records

    return Acknowledged(write_records(iterator, options))


def _stage(iterator: Iterator[pa.RecordBatch], folder: str, options: SinkOptions) -> StagedFile | None:
    from sordini.pipeline.source.staged_records import stage

    return stage(iterator, folder, options)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[StagedFile]:
    return [message.file for message in messages if isinstance(message, Prepared) and message.file is not None]


def _warn(messages: Sequence[WriterCommitMessage | None]) -> None:
    written = sum(message.records for message in messages if isinstance(message, Acknowledged))
    if written:
        log.warning("writing failed; %d records of completed tasks stay, and a repetition writes them again", written)
