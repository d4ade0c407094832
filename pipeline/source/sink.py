"""`frame.write.format("sordini")` and `writeStream`: called by Spark. See `record_writer` for the guarantee."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sordini.pipeline.source.sink_options import SinkOptions

log = logging.getLogger(__name__)


@dataclass
class Acknowledged(WriterCommitMessage):
    """How many records one task has written."""

    records: int


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame's rows as records; they are visible before the job is done, and stay if it fails."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Acknowledged:
        """Write the rows of one task; raises NotWritten, Unauthorized, Unreachable."""
        return _write(iterator, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log what a failed job leaves behind."""
        _warn(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch's rows as records, at least once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Acknowledged:
        """Write the rows of one task of a micro-batch; raises NotWritten, Unauthorized, Unreachable."""
        return _write(iterator, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's.
        """Log what a failed micro-batch leaves behind."""
        _warn(messages)


def _write(iterator: Iterator[pa.RecordBatch], options: SinkOptions) -> Acknowledged:
    # A late import: reading workers import this module as well, and aiokafka is slow to import.
    from sordini.pipeline.source.record_writer import write_records

    return Acknowledged(write_records(iterator, options))


def _warn(messages: Sequence[WriterCommitMessage | None]) -> None:
    written = sum(message.records for message in messages if isinstance(message, Acknowledged))
    log.warning("writing failed; %d records of completed tasks stay, and a repetition writes them again", written)
