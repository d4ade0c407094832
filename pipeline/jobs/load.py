"""`load`: writes the records that are in the topics now to the sink, in atomic pieces.

Before a piece an intent is stored, with its number and its start and end; after the piece and its dead letters are
written, a done. A run that finds an intent without a done repeats that piece under the same number, which a table
recognises. Within a piece Spark has a task for each partition of a topic (more with minPartitions); a failed task
is retried and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs import checkpoints
from sordini.pipeline.jobs.batch_writer import Batch, BatchWriter
from sordini.pipeline.jobs.load_pieces import DONE, INTENT, LoadPiece, is_of_load, last_noted_batch, open_piece
from sordini.pipeline.jobs.pending_records import PendingRecords
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics
from sordini.pipeline.jobs.state_folder import StateFolder, job_state
from sordini.pipeline.source.batch_planning import advance
from sordini.pipeline.source.positions import Position, offsets_from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job

TOPIC_IDS, STARTED = "topics.json", "started.json"


class Step(NamedTuple):
    """One loaded piece, and the progress of the whole load."""

    batch: Batch
    records: int
    records_done: int
    records_all: int
    offsets: Offsets


def load(
    job: Job,
    spark: SparkSession,
    is_stopping: Callable[[], bool],
    notice: Callable[[str], None],
) -> Iterator[Step]:
    """Load the records that exist now, piece by piece; between two pieces `is_stopping` can end it.

    Records are counted by their offsets, including compaction gaps. Raises PipelineError.
    """
    state = job_state(job)
    with state.locked():
        writer, topics = BatchWriter.of(job, spark), SourceTopics.of(job)
        writer.check()
        repeated = finish(writer, state, topics)
        for step in repeated:
            notice(f"batch {step.batch.batch_id} was begun by an earlier run and is repeated")
            yield step
        next_id, pending = begin(writer, state, topics)
        for said in pending.notices:
            notice(said)
        done = sum(step.records for step in repeated)
        records_all = done + distance(pending.start, pending.end)
        start = pending.start
        _show(job, topics, start, notice)
        while distance(start, pending.end) and not is_stopping():
            end = advance(Position(start, {}), Position(pending.end, {}), job.source.records_max).offsets
            piece = LoadPiece(next_id, {**pending.absent, **start}, {**pending.absent, **end})
            state.write(INTENT, piece.to_json())
            batch = write_piece(writer, state, piece)
            done += distance(start, end)
            _show(job, topics, end, notice)
            yield Step(batch, distance(start, end), done, records_all, end)
            start, next_id = end, next_id + 1


def _show(job: Job, topics: SourceTopics, offsets: Offsets, notice: Callable[[str], None]) -> None:
    """Commit a position to the job's group, if it has one. The sink has it anyway, so a failure stops nothing."""
    if not job.source.commit_group or not offsets:
        return
    try:
        topics.commit(job.source.commit_group, offsets)
    except PipelineError as error:
        notice(f"offsets were not committed to group {job.source.commit_group}: {error}")


def finish(writer: BatchWriter, state: StateFolder, topics: SourceTopics) -> list[Step]:
    """Repeat an intent without a done, a piece of `load` or a batch of `stream`, and return it.

    A piece before the sink's position is obsolete. A piece whose topic was recreated cannot be repeated, as other
    records have its offsets: raises TopicRecreated then, unless the job continues regardless. Of a piece that is in the
    sink only dead letters can be missing: of records that the topics have no more there are none to be written.
    """
    reached = writer.reached()
    uncommitted_batch, piece = checkpoints.uncommitted_batch(state.below("stream"), reached), open_piece(state)
    if uncommitted_batch is None and piece is None:
        return []
    done: list[Step] = []
    is_there = not topics.recreated(known_ids(state, reached))
    if uncommitted_batch is not None and reached is not None and is_there:
        start, end = topics.left_of(*uncommitted_batch), uncommitted_batch[1]
        if distance(start, end):
            done.append(
                _step(writer.write(writer.records(start, end), *reached, distance(start, end)), start, end, done)
            )
    if piece is None:
        return done
    start = piece.start
    is_open = reached is None or reached[0] < piece.batch_id
    if is_there and reached == (piece.batch_id, piece.end):
        start = topics.left_of(piece.start, piece.end)
        is_open = bool(distance(start, piece.end))
    if is_open and is_there:
        done.append(_step(_write(writer, piece._replace(start=start)), start, piece.end, done))
    elif is_open:
        # Where the notes are the position, that is the one before the piece: of its other topics nothing was written.
        piece = piece._replace(end=piece.start)
        state.write(INTENT, piece.to_json())
    state.write(DONE, piece.to_json())
    return done


def _step(batch: Batch, start: Offsets, end: Offsets, before: list[Step]) -> Step:
    """The step of a repeated piece; the number of remaining records is not known yet."""
    records = distance(start, end)
    done = records + sum(step.records for step in before)
    return Step(batch, records, done, done, end)


def write_piece(writer: BatchWriter, state: StateFolder, piece: LoadPiece) -> Batch:
    """Read and write a piece, and store its done."""
    batch = _write(writer, piece)
    state.write(DONE, piece.to_json())
    return batch


def _write(writer: BatchWriter, piece: LoadPiece) -> Batch:
    size = distance(piece.start, piece.end)
    return writer.write(writer.records(piece.start, piece.end), piece.batch_id, piece.end, size)


def begin(writer: BatchWriter, state: StateFolder, topics: SourceTopics) -> tuple[int, PendingRecords]:
    """The number of the next batch, and the records to read; raises the errors of `SourceTopics.pending`.

    The first position of a job, or of a recreated topic, is stored before anything is read: "latest" is another offset
    a moment later, and a crash before the first batch must not lose it.
    """
    last = _last_batch(writer, state)
    next_id, reached = (0, None) if last is None else (last[0] + 1, last[1])
    started = started_at(state, next_id)
    since = reached if started is None else started
    return next_id, find_pending(writer.job, topics, state, next_id, since, known_ids(state, last))


def find_pending(
    job: Job,
    topics: SourceTopics,
    state: StateFolder,
    batch_id: int,
    reached: Offsets | None,
    known: dict[str, str],
) -> PendingRecords:
    """The records to read from a job's position (None: it never ran). A first position is stored before.

    `known` are the ids of the topics that the position is of.
    """
    pending = topics.pending(job, reached, known)
    if reached is None or pending.recreated:
        state.write(STARTED, {"batch_id": batch_id, "offsets": {**pending.absent, **pending.start}})
    state.write(TOPIC_IDS, {**known, **pending.topic_ids})  # A deleted topic may be created again.
    return pending


def started_at(state: StateFolder, batch_id: int) -> Offsets | None:
    """The start of this batch, if it is the first one of the job or of a topic."""
    started = state.read(STARTED)
    if started is None or started.get("batch_id") != batch_id:
        return None
    return offsets_from_json(started.get("offsets", {}), STARTED)


def known_ids(state: StateFolder, reached: tuple[int, Offsets] | None) -> dict[str, str]:
    """The ids of the topics that the job's position is of: as they were stored last, or as a stream has found them."""
    stored = {topic: str(topic_id) for topic, topic_id in (state.read(TOPIC_IDS) or {}).items()}
    if reached is not None and is_of_load(state, *reached):
        return stored
    return {**stored, **checkpoints.topic_ids_at(state.below("stream"), reached)}


def _last_batch(writer: BatchWriter, state: StateFolder) -> tuple[int, Offsets] | None:
    """The last batch and the offsets after it: from the sink, or from the job's state if that has no position."""
    if writer.sink_is_topic:
        return last_noted_batch(state)
    last = writer.reached()
    if last is not None and not last[1]:
        raise PipelineError(f"'{writer.job.name}' wrote into its table without offsets: give the job another name")
    return last


def distance(start: Offsets, end: Offsets) -> int:
    """The number of offsets between two positions of the same partitions."""
    return sum(at - start.get(topic, {}).get(number, at) for topic, each in end.items() for number, at in each.items())
