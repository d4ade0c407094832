"""`frame.write.format("sordini")`, as Spark calls it; `sink_tasks` does the work."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from sordini.pipeline.source.sink_options import SinkOptions
from sordini.pipeline.source.sink_tasks import BatchTasks


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame's rows as records.

    Without a transaction they are visible before the job is done, and stay if it fails.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._tasks = BatchTasks(options, uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or stage the rows of one task."""
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write what was staged."""
        self._tasks.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what a failed job leaves behind."""
        self._tasks.abort(messages)
