"""`load`: what is in the topics by now goes into the sink, in pieces, each of which is there wholly or not at all.

Before a piece there is an intent, with its number and both ends; after it, when it is in the sink and its dead letters
are where they belong, a done. A run that finds an intent without its done does that very piece again, under the same
number, which a table recognises. Within a piece Spark has a task for each partition of a topic (and more with
minPartitions), and a task that failed starts again without leaving anything behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs import checkpoints
from sordini.pipeline.jobs.batch_writer import Batch, Flow
from sordini.pipeline.jobs.source_topics import Offsets, Topics, Work
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.source.batch_planning import advance
from sordini.pipeline.source.positions import Position, offsets_from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job

INTENT, DONE = "load/intent.json", "load/done.json"
TOPIC_IDS, STARTED = "topics.json", "started.json"


class Piece(NamedTuple):
    """A range of records with a number; offsets of `end` are the first not in it."""

    batch_id: int
    start: Offsets
    end: Offsets

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Piece:
        """Raises PipelineError for anything else."""
        return cls(
            int(value["batch_id"]),
            offsets_from_json(value["start"], "a piece's start"),
            offsets_from_json(value["end"], "a piece's end"),
        )


class Step(NamedTuple):
    """One piece that was loaded, and how much of the whole is."""

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
    """Load all there is now, a piece at a time; between two pieces `is_stopping` can end it.

    Records are counted by their offsets, gaps of compaction included. Raises PipelineError.
    """
    state = StateFolder(job.state)
    with state.locked():
        flow, topics = Flow.of(job, spark), Topics.of(job)
        flow.check()
        repeated = finish(flow, state, topics)
        for step in repeated:
            notice(f"batch {step.batch.batch_id} was begun by an earlier run, and is done again")
            yield step
        next_id, work = begin(flow, state, topics)
        for said in work.notices:
            notice(said)
        done = sum(step.records for step in repeated)
        records_all = done + distance(work.start, work.end)
        start = work.start
        while distance(start, work.end) and not is_stopping():
            end = advance(Position(start, {}), Position(work.end, {}), job.source.records_max).offsets
            piece = Piece(next_id, start, end)
            state.write(INTENT, piece.to_json())
            batch = write_piece(flow, state, piece)
            done += distance(start, end)
            yield Step(batch, distance(start, end), done, records_all, end)
            start, next_id = end, next_id + 1


def finish(flow: Flow, state: StateFolder, topics: Topics) -> list[Step]:
    """Do again what was begun and is not known to be done, a piece of `load` or a batch of `stream`; returns that.

    A piece from before which the sink has gone on without us is not ours any more. Nor can anything be done again whose
    records went with their topic: another one of its name has others at their offsets. Raises TopicRecreated then,
    unless the job goes on regardless.
    """
    reached = flow.reached()
    half_done, piece = checkpoints.half_done(state.below("stream"), reached), open_piece(state)
    if half_done is None and piece is None:
        return []
    done: list[Step] = []
    is_there = not topics.made_anew(known_ids(state))
    if half_done is not None and reached is not None and is_there:
        done.append(_step(flow.write(flow.records(*half_done), reached[0], reached[1]), *half_done, done))
    if piece is None:
        return done
    is_open = reached is None or reached[0] < piece.batch_id or reached == (piece.batch_id, piece.end)
    if is_open and is_there:
        done.append(_step(write_piece(flow, state, piece), piece.start, piece.end, done))
    else:
        state.write(DONE, piece.to_json())
    return done


def _step(batch: Batch, start: Offsets, end: Offsets, before: list[Step]) -> Step:
    """A step of what is done again; how much there is to do after it is not known yet."""
    records = distance(start, end)
    done = records + sum(step.records for step in before)
    return Step(batch, records, done, done, end)


def open_piece(state: StateFolder) -> Piece | None:
    """The intent without its done."""
    intent, done = state.read(INTENT), state.read(DONE)
    return None if intent is None or intent == done else Piece.from_json(intent)


def write_piece(flow: Flow, state: StateFolder, piece: Piece) -> Batch:
    """Read a piece and write it, and note that it is done."""
    batch = flow.write(flow.records(piece.start, piece.end), piece.batch_id, piece.end)
    state.write(DONE, piece.to_json())
    return batch


def begin(flow: Flow, state: StateFolder, topics: Topics) -> tuple[int, Work]:
    """The number of the next batch, and what there is to read now; raises what `Topics.work` raises.

    Where a job begins that has nothing in its sink to go on from, at first or with a topic made anew, is noted before
    anything is read: "latest" is somewhere else a moment later, and an end before the first batch forgets nothing.
    """
    next_id, reached = position(flow, state)
    started = started_at(state, next_id)
    return next_id, look(flow.job, topics, state, next_id, reached if started is None else started)


def look(job: Job, topics: Topics, state: StateFolder, batch_id: int, reached: Offsets | None) -> Work:
    """What there is to read from where a job has come (None: nowhere). Where a new beginning is, is noted first."""
    known = known_ids(state)
    work = topics.work(job, reached, known)
    if reached is None or work.made_anew:
        state.write(STARTED, {"batch_id": batch_id, "offsets": work.start})
    state.write(TOPIC_IDS, {**known, **work.topic_ids})  # One that is gone may come again.
    return work


def started_at(state: StateFolder, batch_id: int) -> Offsets | None:
    """Where this batch begins, if the job, or a topic of it, begins with it."""
    started = state.read(STARTED)
    if started is None or started.get("batch_id") != batch_id:
        return None
    return offsets_from_json(started.get("offsets", {}), STARTED)


def known_ids(state: StateFolder) -> dict[str, str]:
    """The ids of the topics as they were when the job last looked."""
    return {topic: str(topic_id) for topic, topic_id in (state.read(TOPIC_IDS) or {}).items()}


def position(flow: Flow, state: StateFolder) -> tuple[int, Offsets | None]:
    """The number of the next batch and where it starts: a table tells, for a topic our own notes do."""
    reached = flow.reached()
    if reached is not None:
        batch_id, offsets = reached
        if not offsets:
            raise PipelineError(f"'{flow.job.name}' wrote into its table without offsets: give the job another name")
        return batch_id + 1, offsets
    noted = noted_place(state) if flow.sink_is_topic else None
    return (0, None) if noted is None else (noted[0] + 1, noted[1])


def noted_place(state: StateFolder) -> tuple[int, Offsets] | None:
    """The last batch that a job with a topic for a sink knows to be done, and the offsets after it."""
    done, streamed = state.read(DONE), checkpoints.reached(state.below("stream"))
    places = [] if streamed is None else [streamed]
    if done is not None:
        piece = Piece.from_json(done)
        places.append((piece.batch_id, piece.end))
    return max(places, key=lambda place: sum(at for each in place[1].values() for at in each.values()), default=None)


def distance(start: Offsets, end: Offsets) -> int:
    """How many offsets are between two positions, of the same partitions."""
    return sum(at - start.get(topic, {}).get(number, at) for topic, each in end.items() for number, at in each.items())
