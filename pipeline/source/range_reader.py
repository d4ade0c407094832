"""A reading task: reads one range of one partition as Arrow batches. Runs in Spark's Python workers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from sordini.pipeline.errors import OffsetLost, PipelineError, TopicRecreated, UnknownTopic
from sordini.pipeline.source.batch_planning import DataLost, Range
from sordini.pipeline.source.client import Client, Fetched
from sordini.pipeline.source.decode import Decoder, DecodeRequest
from sordini.pipeline.source.options import SourceOptions
from sordini.protocol.types import TopicPartition

log = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """What one task reads; the driver sends it to a worker, pickled."""

    def __init__(self, piece: Range, topic_id: str) -> None:
        super().__init__(piece)
        self.piece = piece
        self.topic_id = topic_id
        """The id of the topic that the offsets belong to; empty where brokers have no topic ids."""


class LogReader(Protocol):
    """The requests to a cluster; `client.Client` implements it."""

    def read(
        self, partition: TopicPartition, start: int, end: int, *, read_committed: bool = False, topic_id: str = ""
    ) -> Iterator[Fetched]:
        """The records between two offsets, fetch by fetch; raises OffsetLost, TopicRecreated, UnknownTopic."""


def read_piece(options: SourceOptions, piece: RangePartition) -> Iterator[pa.RecordBatch]:
    """The records of a range, over a connection of its own; see `read_logs`."""
    with Client(options.client) as client:
        yield from read_logs(client, options, piece)


def read_logs(logs: LogReader, options: SourceOptions, piece: RangePartition) -> Iterator[pa.RecordBatch]:
    """The records of a range, without empty batches.

    Raises BrokenRecords, and DataLost when a part of the range was deleted. With failOnDataLoss=false a loss is logged
    instead, and the remaining records are read.
    """
    start: int | None = piece.piece.start
    while start is not None:
        try:
            yield from _read_from(logs, options, piece, start)
            start = None
        except (OffsetLost, TopicRecreated, UnknownTopic) as loss:
            if options.fail_on_data_loss:
                raise DataLost(str(loss)) from loss
            log.warning("records lost: %s", loss)
            start = _first_after(loss, piece.piece)


def _read_from(logs: LogReader, options: SourceOptions, piece: RangePartition, start: int) -> Iterator[pa.RecordBatch]:
    topic, partition, _, end = piece.piece
    decoder = Decoder(DecodeRequest(topic, partition, start, end, frozenset(options.columns), options.read_committed))
    fetches = logs.read(
        TopicPartition(topic, partition), start, end, read_committed=options.read_committed, topic_id=piece.topic_id
    )
    for fetched in fetches:
        for decoded in decoder.pieces(fetched.records, fetched.aborted):
            if decoded.batch is not None:
                yield decoded.batch


def _first_after(loss: PipelineError, piece: Range) -> int | None:
    """Where a range continues after a loss by retention; None where nothing of it is left."""
    if isinstance(loss, OffsetLost) and loss.asked < loss.log_start_offset < piece.end:
        return loss.log_start_offset
    return None
