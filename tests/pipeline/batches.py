"""A stream's sink that keeps the rows of each batch, so that a test sees what came when, and what came twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.pipeline.sent import Row, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

PATIENCE_S = 90
_POLL_SECONDS = 0.05
_NOT_UP = "Python worker failed to connect back"
"""Spark gives the Python process of a Python source ten seconds to start; a busy machine may take longer."""
_STARTS_MAX = 5


class Batches:
    """What a query with one checkpoint, however often it is started, has handed to its sink."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self.rows: list[list[Row]] = []
        """Of each batch that was not empty, in the order of their coming."""

    @property
    def everything(self) -> list[Row]:
        return sorted((row for batch in self.rows for row in batch), key=lambda row: row[:2])

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        def keep(batch: DataFrame, _: int) -> None:
            if found := rows(batch):
                self.rows.append(found)

        return frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._checkpoint))

    def drain(self, frame: DataFrame) -> None:
        """Run until all that is there now has come."""
        drain(self.writer(frame))


def drain(writer: DataStreamWriter) -> StreamingQuery:
    """Run a query until all that is there now has come; the query, which has ended. Raises its error if it failed."""
    from pyspark.errors import PySparkException

    for _ in range(_STARTS_MAX - 1):
        query = writer.trigger(availableNow=True).start()
        try:
            end(query)
        except PySparkException as error:
            if _NOT_UP not in str(error):
                raise
        else:
            return query
    query = writer.trigger(availableNow=True).start()
    end(query)
    return query


@contextmanager
def running(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    """A query that is stopped in any case."""
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


def end(query: StreamingQuery) -> None:
    """Wait until a query has ended by itself. Raises its error if it failed."""
    try:
        assert query.awaitTermination(PATIENCE_S), f"still running: {query.status}"
    finally:
        query.stop()


def until(query: StreamingQuery, condition: Callable[[], bool], what: str) -> None:
    """Poll while a query runs. Raises its error if it fails; `what` completes the sentence "it did not happen that"."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if (error := query.exception()) is not None:
            raise error
        assert query.isActive, "it has ended"
        assert time.monotonic() < deadline, f"it did not happen in {PATIENCE_S} s that {what}: {query.status}"
        time.sleep(_POLL_SECONDS)
