"""The parts of a job in words, and what is committed when: texts of `explain`."""

from __future__ import annotations

from typing import Final, Literal

from sordini.pipeline.changes.envelope import Envelope
from sordini.pipeline.jobs.job import DecodeMode, Job, Sink, SinkKind, SourceFormat
from sordini.pipeline.jobs.row_columns import columns_of
from sordini.pipeline.source.sink_options import TRANSACTIONAL_ID

IN_STATE: Final = "the job's state"


def source_of(job: Job) -> str:
    """The topics, and who reads them."""
    source = job.source
    what = f"topics that match {source.pattern!r}" if source.pattern else ", ".join(source.topics)
    reader = "Sordini's source" if source.format is SourceFormat.SORDINI else "Spark's own source"
    return f"{what} at {source.bootstrap}, read by {reader}"


def batches_of(job: Job, command: Literal["load", "stream"], waiting: int | None) -> str:
    """How many batches there are, of which size, and how many tasks share one."""
    limit = job.source.records_max
    tasks = "one task for each partition"
    if least := next((value for name, value in job.source.options.items() if name.lower() == "minpartitions"), ""):
        tasks = f"at least {least} tasks"
    size = f"at most {limit:,} records of all partitions, {tasks}"
    if command == "stream":
        return f"{f'every {job.every.text}' if job.every else 'one after the other'}, {size}"
    if waiting is None:
        return size
    count = -(-waiting // limit)
    return f"{'none: all was written before' if not count else f'{count:,}, of {size}'}"


def decode_of(job: Job) -> str:
    """How a value becomes columns."""
    decode = job.decode
    if decode.mode is DecodeMode.RAW:
        return "raw: key and value as they are; nothing can be a dead letter"
    envelope = "" if decode.changes is Envelope.NONE else f", in the envelope of {decode.changes.value}"
    if decode.schema is None:
        return f"{decode.mode.value}, by the schemas of the registry{envelope}"
    fields = ", ".join(f"{one.name} {one.kind}{'!' if one.is_required else ''}" for one in decode.schema.fields)
    return f"{decode.mode.value}{envelope}, to {fields}"


def rows_of(job: Job) -> str:
    """The columns of a row, as far as they are known without Spark."""
    known = columns_of(job.decode)
    of_registry = ", ".join(("the columns of the schema in the registry", *job.decode.columns))
    columns = of_registry if known is None else ", ".join(known)
    return f"{columns}, then transform {job.transform}" if job.transform else columns


def place_of(sink: Sink) -> str:
    """A sink in words."""
    if sink.kind is SinkKind.KAFKA:
        how = f", in transactions of {sink.options[TRANSACTIONAL_ID]}" if TRANSACTIONAL_ID in sink.options else ""
        return f"topic {sink.location}{how}"
    by = f", partitioned by {', '.join(sink.partition_by)}" if sink.partition_by else ""
    upserted = f", upserted by {', '.join(sink.upsert.keys)}" if sink.upsert else ""
    return f"{sink.kind.value} {sink.location}{by}{upserted}"


def place_of_position(job: Job) -> str:
    """Where the offsets after the last batch are stored."""
    assert job.sink is not None, "explain looks first"
    if job.sink.kind is not SinkKind.KAFKA:
        return "the table"
    return f"the group {group}" if (group := job.sink.options.get(TRANSACTIONAL_ID)) else IN_STATE


def commits_of(job: Job, command: Literal["load", "stream"], checkpoint: str) -> tuple[str, ...]:
    """What is committed for a batch, in order."""
    assert job.sink is not None, "explain looks first"
    assert job.dead_letters is not None, "explain looks first"
    folder = f"{job.state}/{'load' if command == 'load' else f'stream/{checkpoint}'}"
    begins, ends = (
        ("intent.json: the batch's number, start and end", "done.json: the batch is complete")
        if command == "load"
        else ("offsets/N: the batch's end, by Spark", "commits/N: the batch is complete, by Spark")
    )
    place = place_of(job.sink)
    steps = [f"{folder}/{begins}"]
    if job.sink.kind is not SinkKind.KAFKA:
        steps.append("the rows' files beside the table, which no reader sees yet")
    elif TRANSACTIONAL_ID in job.sink.options:
        steps.append("the rows, staged in the job's state")
    if job.decode.mode is not DecodeMode.RAW:
        steps.append(f"the dead letters, in {place_of(job.dead_letters)}")
    if job.sink.kind is SinkKind.KAFKA and TRANSACTIONAL_ID in job.sink.options:
        steps.append(f"the rows, with the batch's number and the offsets after it, in one transaction: {place}")
    elif job.sink.kind is SinkKind.KAFKA:
        steps.append(f"the rows, in {place}; not with the position, so they may be there twice after a crash")
    else:
        steps.append(f"the rows, with the batch's number and the offsets after it, in one commit of {place}")
    steps.append(f"{folder}/{ends}")
    if job.source.commit_group:
        steps.append(f"the offsets, in the consumer group {job.source.commit_group}, for tools that show lag")
    return tuple(steps)
