"""`explain`: what a run of a job would do, before it does anything. Needs no Spark, and writes nothing.

Positions and log ends are read as a run reads them; the order of commits is that of `jobs/load.py`, `jobs/stream.py`
and `jobs/batch_writer.py`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.library.failures import pipeline_errors

if TYPE_CHECKING:
    from sordini.pipeline.jobs.job import Job
    from sordini.pipeline.jobs.source_topics import Offsets
    from sordini.pipeline.jobs.state_folder import StateFolder

Command = Literal["load", "stream"]


class PartitionRange(NamedTuple):
    """The offsets that a run reads first of one partition; `end` is the first that is not in it."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def records_max(self) -> int:
        """At most this many records: compaction leaves gaps, and transaction markers take offsets."""
        return self.end - self.start


@dataclass(frozen=True)
class Explanation:
    """What a run would do. `offsets_unknown` is the reason where the cluster or the table did not say."""

    job: str
    command: Command
    source: str
    position: str
    """Where the run continues, and where that is stored."""
    ranges: tuple[PartitionRange, ...]
    batches: str
    decode: str
    rows: str
    sink: str
    dead_letters: str
    commits: tuple[str, ...]
    """What is committed, in this order, for each batch."""
    notices: tuple[str, ...] = ()
    offsets_unknown: str = ""

    @property
    def records_max(self) -> int:
        """At most this many records are there to be read now."""
        return sum(one.records_max for one in self.ranges)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        ranges = [{**one._asdict(), "records_max": one.records_max} for one in self.ranges]
        return {**asdict(self), "ranges": ranges, "records_max": self.records_max}


def explain(job: Job, command: Command = "load", *, offline: bool = False) -> Explanation:
    """What `load` or `stream` of this job would do now. Nothing is written.

    With `offline` a cluster or a table that cannot be read is a reason in `offsets_unknown`; without, it raises
    PipelineError, as the run would.
    """
    from sordini.pipeline.jobs.state_folder import job_state
    from sordini.pipeline.library.commit_order import batches_of, commits_of, decode_of, place_of, rows_of, source_of

    with pipeline_errors():
        if job.sink is None or job.dead_letters is None:
            raise PipelineError(f"job {job.name} has no sink: its file needs one for this command")
        found, unknown = _Positions(), ""
        try:
            with pipeline_errors():
                found = _positions(job, job_state(job), command)
        except PipelineError as error:
            if not offline:
                raise
            unknown = str(error)
        waiting = sum(one.records_max for one in found.ranges)
        return Explanation(
            job=job.name,
            command=command,
            source=source_of(job),
            position="" if unknown else found.where,
            ranges=found.ranges,
            batches=batches_of(job, command, None if unknown else waiting),
            decode=decode_of(job),
            rows=rows_of(job),
            sink=place_of(job.sink),
            dead_letters=place_of(job.dead_letters),
            commits=commits_of(job, command, found.checkpoint),
            notices=found.notices,
            offsets_unknown=unknown,
        )


class _Positions(NamedTuple):
    """Where a run continues."""

    where: str = ""
    ranges: tuple[PartitionRange, ...] = ()
    notices: tuple[str, ...] = ()
    checkpoint: str = "0"


def _positions(job: Job, state: StateFolder, command: Command) -> _Positions:
    from sordini.pipeline.jobs import load
    from sordini.pipeline.jobs.load_pieces import open_piece
    from sordini.pipeline.jobs.source_topics import SourceTopics
    from sordini.pipeline.jobs.status import reached
    from sordini.pipeline.library.commit_order import place_of_position

    last = reached(job)
    next_id, offsets = (0, None) if last is None else (last[0] + 1, last[1])
    started = load.started_at(state, next_id)
    topics = SourceTopics.of(job)
    topics.check()
    pending = topics.pending(job, offsets if started is None else started, load.known_ids(state, last))
    holder = place_of_position(job)
    where = f"batch {next_id} is next; the offsets after batch {next_id - 1} are in {holder}"
    if last is None:
        where = f"batch 0 is next; it begins at {job.source.starting}, as the job has written nothing yet"
        if started is not None:
            where = "batch 0 is next; an earlier run has stored where it begins in the job's state"
    notices = [*pending.notices]
    piece = open_piece(state)
    if piece is not None and (last is None or last[0] <= piece.batch_id):
        notices.append(f"batch {piece.batch_id} was begun by an earlier run and is repeated first")
    checkpoint, why = "0", ""
    if command == "stream":
        checkpoint, why = _checkpoint(job, state, last, pending.topic_ids)
    return _Positions(where, _ranges(pending.start, pending.end), (*notices, *filter(None, [why])), checkpoint)


def _checkpoint(
    job: Job, state: StateFolder, last: tuple[int, Offsets] | None, topic_ids: dict[str, str]
) -> tuple[str, str]:
    """The folder of the checkpoint that a stream would use, and why it is a new one."""
    from sordini.pipeline.jobs import checkpoints
    from sordini.pipeline.jobs.stream import fingerprint
    from sordini.pipeline.library.commit_order import IN_STATE, place_of_position

    in_table = place_of_position(job) != IN_STATE
    choice = checkpoints.choose(
        state.below("stream"),
        last if in_table else None,
        fingerprint(job),
        table_has_position=in_table,
        topic_ids=topic_ids,
    )
    return choice.checkpoint.folder, f"a new checkpoint begins, as {choice.why}" if choice.why else ""


def _ranges(start: Offsets, end: Offsets) -> tuple[PartitionRange, ...]:
    return tuple(
        PartitionRange(topic, number, start[topic][number], at)
        for topic, partitions in sorted(end.items())
        for number, at in sorted(partitions.items())
    )
