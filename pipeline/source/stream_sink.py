"""`frame.writeStream.format("sordini")`, as Spark calls it from 4.1 on; `sink_tasks` does the work."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from sordini.pipeline.source.sink_options import SinkOptions
from sordini.pipeline.source.sink_tasks import StreamTasks


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch's rows as records."""

    def __init__(self, options: SinkOptions) -> None:
        self._tasks = StreamTasks(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or stage the rows of one task."""
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's.
        """Write what was staged, unless the batch is committed already."""
        self._tasks.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's.
        """Log what a failed micro-batch leaves behind."""
        self._tasks.abort(messages)
