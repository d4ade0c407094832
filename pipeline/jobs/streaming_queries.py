"""Starts streaming queries with their checkpoints, watches them, and stops them gracefully.

Spark gives the Python process of a stream's source ten seconds to start, and nothing changes that. On a busy machine it
sometimes takes longer, and the query fails before it has done anything: then it is started again, a few times.
Queries are started one after the other, as their processes would delay each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sordini.pipeline.error_messages import root_cause_of
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.checkpoint_mirror import CheckpointMirror
from sordini.pipeline.jobs.checkpoints import Checkpoint
from sordini.pipeline.jobs.graceful_stop import BatchGate, Stopped, stop_on_signals
from sordini.pipeline.jobs.state_folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from sordini.pipeline.jobs.job import Job

_NOT_UP = "Python worker failed to connect back"
"""Spark's error when the process has not started in time."""
STARTS_MAX = 5
_INITIALIZING = "Initializing sources"
"""A query's status until that process is up."""
_POLL_SECONDS = 0.2
_FINISH_SECONDS = 30.0
"""How long to wait until Spark stores the commit of a batch that is in the table; else it is repeated, and skipped."""


class Running:
    """A query that is restarted if its Python process has not started in time."""

    def __init__(self, begin: Callable[[], StreamingQuery], mirror: CheckpointMirror | None = None) -> None:
        """`mirror` is that of the query's checkpoint, if its state is in an object store."""
        self._begin = begin
        self.mirror = mirror
        self._starts_left = STARTS_MAX - 1
        self.query = begin()

    def has_failed(self) -> bool:
        """Whether it has ended and is not restarted; restarts it if it may be."""
        if self.query.isActive or (error := self.query.exception()) is None:
            return False
        if _NOT_UP not in str(error) or not self._starts_left:
            return True
        self._starts_left -= 1
        self.query = self._begin()
        return False


def settle(running: Running, gate: BatchGate) -> None:
    """Wait until a query's process is up; whether the query has ended is for `run` to see."""
    while not gate.is_shut and not running.has_failed():
        if not running.query.isActive or running.query.status.get("message") != _INITIALIZING:
            return
        _wait(running.query)


def start(
    frame: DataFrame,
    job: Job,
    state: StateFolder,
    checkpoint: Checkpoint,
    write: Callable[[DataFrame, int], None],
    *,
    name: str,
    available_now: bool,
    gate: BatchGate,
    mirror: CheckpointMirror | None,
) -> Running:
    """Start a query whose batches `write` takes, numbered as the table does."""

    def one(batch: DataFrame, number: int) -> None:
        with gate.passed():
            if mirror is not None:
                mirror.store()
            write(batch, checkpoint.first_batch_id + number)

    writer = (
        frame.writeStream.queryName(name)
        .option("checkpointLocation", str(mirror.working) if mirror else f"{state.location}/{checkpoint.folder}")
        .foreachBatch(one)
        .outputMode("append")
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif job.every is not None:
        writer = writer.trigger(processingTime=job.every.text)
    running = Running(writer.start, mirror)
    settle(running, gate)
    return running


Query = tuple[StateFolder, Callable[[ExitStack], Running]]
"""The state that a query locks, and what starts it; what that enters into the stack is held until all have ended."""


def run_all(queries: Iterable[Query], gate: BatchGate) -> None:
    """Start queries one after the other, and wait as `run` does; SIGTERM and Ctrl-C shut the gate.

    When one does not start, those before it are stopped between two batches first. Raises PipelineError.
    """
    with ExitStack() as held:
        running: list[Running] = []
        try:
            for state, begin in queries:
                held.enter_context(state.locked())
                running.append(begin(held))
        except BaseException:  # All of them - raised again, once what runs has been brought to its end.
            gate.shut()
            run(running, gate)
            raise
        held.enter_context(stop_on_signals(gate))
        run(running, gate)


def run(running: Sequence[Running], gate: BatchGate) -> None:
    """Wait until all queries have ended, or the gate is shut and all are between two batches.

    When one fails the others are stopped, and then the failure is raised, as a PipelineError.
    """
    failure: Exception | None = None
    while not gate.is_shut:
        if any(one.has_failed() for one in running):
            gate.shut()
        active = next((one.query for one in running if one.query.isActive), None)
        if active is None:
            break
        _wait(active)
    for one in running:
        _end(one.query, gate)
        failure = failure or _failure(one.query)
        if one.mirror is not None and failure is None:
            one.mirror.store()  # The commit of the last batch, so that the next run need not repeat it.
    if failure is not None:
        raise failure


def _wait(query: StreamingQuery) -> None:
    """Wait briefly; in the main thread, signal handlers run in between."""
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # Takes fractions, too.
    except StreamingQueryException:
        return  # Raised at the end, in order.


def _end(query: StreamingQuery, gate: BatchGate) -> None:
    """Stop a query between two batches: behind the shut gate only one is under way, and then Spark's note of it."""
    while query.isActive and not gate.wait_until_empty(_POLL_SECONDS):
        pass
    polls = int(_FINISH_SECONDS / _POLL_SECONDS)
    while query.isActive and polls and query.status["isTriggerActive"]:
        _wait(query)
        polls -= 1
    if query.isActive:
        query.stop()


def _failure(query: StreamingQuery) -> Exception | None:
    """The error of a query, unless it was stopped on request."""
    error = query.exception()
    if error is None or f"{Stopped.__module__}.{Stopped.__qualname__}" in str(error):
        return None
    return PipelineError(f"{query.name} stopped: {root_cause_of(str(error))}")
