"""Streaming queries while they run: started with their checkpoint, watched, and ended in good order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.checkpoints import Checkpoint
from sordini.pipeline.jobs.state import StateFolder
from sordini.pipeline.jobs.stopping import Gate, Stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from sordini.pipeline.jobs.job import Job

_LOOK_SECONDS = 0.2
_FINISH_SECONDS = 30.0
"""How long Spark gets to note a batch as done that is in the table already: it would be repeated, and skipped."""


def start(
    frame: DataFrame,
    job: Job,
    state: StateFolder,
    checkpoint: Checkpoint,
    write: Callable[[DataFrame, int], None],
    *,
    name: str,
    available_now: bool,
    gate: Gate,
) -> StreamingQuery:
    """Start a query whose batches `write` takes, numbered as the table does."""

    def one(batch: DataFrame, number: int) -> None:
        with gate.passed():
            write(batch, checkpoint.first_batch_id + number)

    writer = (
        frame.writeStream.queryName(name)
        .option("checkpointLocation", f"{state.location}/{checkpoint.folder}")
        .foreachBatch(one)
        .outputMode("append")
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif job.every is not None:
        writer = writer.trigger(processingTime=job.every.text)
    return writer.start()


def run(queries: Sequence[StreamingQuery], gate: Gate) -> None:
    """Wait until all queries have ended, or the gate is shut and all are between two batches.

    When one fails the others are brought to their end, and then the failure is raised, as a PipelineError.
    """
    failure: Exception | None = None
    while any(query.isActive for query in queries) and not gate.is_shut:
        for query in queries:
            if not query.isActive and query.exception() is not None:
                gate.shut()
        _wait(next((query for query in queries if query.isActive), None))
    for query in queries:
        _end(query, gate)
        failure = failure or _failure(query)
    if failure is not None:
        raise failure


def _wait(query: StreamingQuery | None) -> None:
    """Wait a little; in the main thread, signal handlers run in between."""
    from pyspark.errors import StreamingQueryException

    if query is not None:
        try:
            query.awaitTermination(_LOOK_SECONDS)  # type: ignore[arg-type]  # Takes fractions, too.
        except StreamingQueryException:
            return  # Told of at the end, in order.


def _end(query: StreamingQuery, gate: Gate) -> None:
    """Stop a query between two batches: behind the shut gate only one is under way, and then Spark's note of it."""
    while query.isActive and not gate.wait_until_empty(_LOOK_SECONDS):
        pass
    looks = int(_FINISH_SECONDS / _LOOK_SECONDS)
    while query.isActive and looks and query.status["isTriggerActive"]:
        _wait(query)
        looks -= 1
    if query.isActive:
        query.stop()


def _failure(query: StreamingQuery) -> Exception | None:
    """What a query died of, unless it was our asking."""
    error = query.exception()
    if error is None or f"{Stopped.__module__}.{Stopped.__qualname__}" in str(error):
        return None
    return PipelineError(f"{query.name} stopped: {reason_of(str(error))}")


def reason_of(text: str) -> str:
    """The part of Spark's long message that says what happened: the last line of Python's, if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("sordini.")]
    if ours:
        return ours[-1].partition(": ")[2] or ours[-1]
    return lines[0] if lines else "Spark gave no reason"
