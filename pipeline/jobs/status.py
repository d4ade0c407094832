"""`status`: each partition's position in the job's tables, and its lag. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sordini.pipeline.jobs import checkpoints
from sordini.pipeline.jobs.aggregate import app_id, state_of
from sordini.pipeline.jobs.batch_writer import open_sink, open_sink_table
from sordini.pipeline.jobs.job import Job, SinkKind
from sordini.pipeline.jobs.load_pieces import last_noted_batch
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics
from sordini.pipeline.jobs.state_folder import job_state
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic


class PartitionProgress(NamedTuple):
    """One partition in one part of a job; `next_offset` is None if that part has not begun."""

    of: str
    """The job's name, or that of an aggregate."""
    batch: int | None
    topic: str
    partition: int
    log_start: int
    next_offset: int | None
    log_end: int
    lag: int
    lost: int
    """Records that were deleted before this part of the job read them."""


def status(job: Job) -> list[PartitionProgress]:
    """The positions of all parts. Raises Unreachable, UnknownTopic, and TableError."""
    begins, ends = SourceTopics.of(job).extent()
    parts = [(job.name, reached(job))] if job.sink else []
    parts += [(one.name, checkpoints.reached(state_of(job, one)) or _of_table(job, one.name)) for one in job.aggregates]
    return [row for name, at in parts for row in partition_rows(name, at, begins, ends)]


def partition_rows(
    name: str, at: tuple[int, Offsets] | None, begins: Offsets, ends: Offsets
) -> Iterator[PartitionProgress]:
    """One part's partitions in order. The lag of a partition that was never read is its whole log."""
    batch, offsets = at or (None, {})
    for topic, partitions in sorted(ends.items()):
        for number, end in sorted(partitions.items()):
            first = begins[topic][number]
            after = offsets.get(topic, {}).get(number)
            lag = max(0, end - max(first, first if after is None else after))
            lost = 0 if after is None else max(0, first - after)
            yield PartitionProgress(name, batch, topic, number, first, after, end, lag, lost)


def reached(job: Job) -> tuple[int, Offsets] | None:
    """The last batch of the job's sink and the offsets after it: from the sink, or the job's state."""
    assert job.sink is not None, "status looks first"
    if job.sink.kind is not SinkKind.KAFKA:
        return open_sink_table(job.sink, job.name).last()
    sink = open_sink(job, job.sink, job.name)
    if isinstance(sink, TransactionalTopic):
        return sink.noted() or last_noted_batch(job_state(job), by_number=True)
    return last_noted_batch(job_state(job))


def _of_table(job: Job, name: str) -> tuple[int, Offsets] | None:
    one = next(one for one in job.aggregates if one.name == name)
    return open_sink_table(one.sink, app_id(job, one)).last()
