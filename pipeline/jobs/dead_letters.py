"""Where records go that cannot be decoded: the dead letters of a batch, written before the batch itself.

A record is one when its value does not match the job's schema, or has none that is known (`schemas/decoding.py` has the
reasons, and the columns of a dead letter); `raw` decodes nothing, and has none. The job file names their sink
(`dead_letters`).

The sink's files are staged first, which also shows whether there are dead letters; only then is the batch read again
for them. They are committed before the sink's files: a batch in the sink always has its dead letters, and if dead
letters cannot be written, nothing of the batch is in the sink. If the process crashes between the two commits, the
batch is repeated and its dead letters exist already: they are recognised by the batch's number and offsets or, if the
repeated batch is a different one (the checkpoint was lost), record by record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.any_sink import AnySink
from sordini.pipeline.jobs.missing_rows import records_after, rows_missing_from
from sordini.pipeline.jobs.source_topics import Offsets
from sordini.pipeline.jobs.topic_sink import TopicSink
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic, furthest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeadLettersFailed(PipelineError):
    """Dead letters cannot be written, so their batch was not committed."""

    def __init__(
        self,
        into: AnySink,
        error: BaseException,
        batch_id: int,
        sink: AnySink,
    ) -> None:
        where = f"topic {into.topic}" if isinstance(into, TopicSink) else into.location
        kept = "is repeated by the next run" if isinstance(sink, TopicSink) else "is not in the sink"
        super().__init__(
            f"the dead letters of batch {batch_id} cannot be written to {where}, so the batch {kept}: "
            f"{message_of(error)}"
        )


def write_dead_letters(
    into: AnySink,
    letters: DataFrame,
    batch_id: int,
    offsets: Offsets,
    sink: AnySink,
    *,
    is_in_sink: bool = False,
) -> int:
    """Write the dead letters of a batch, and return how many. `sink` is the batch's own. Raises DeadLettersFailed.

    Of a batch that is in its sink (`is_in_sink`) they are there, unless an earlier version wrote it. What is read for
    it again may be more than it was made of, so only those records are written that have no dead letter.
    """
    try:
        last = None if isinstance(into, TopicSink) else into.last()
        if isinstance(into, TopicSink) or last is None or last == (batch_id, offsets):
            return into.append(letters, batch_id, offsets).rows
        if last[0] < batch_id and not is_in_sink:
            return into.append(letters, batch_id, offsets).rows
        # Or an attempt that stored another batch under this number, or a later one, crashed before its commit.
        number = max(batch_id, last[0] + 1)
        if isinstance(into, TransactionalTopic):
            rest, end_offsets = records_after(letters, last[1]), furthest(last[1], offsets)
            return into.append(rest, number, end_offsets).rows
        end = max(at for each in offsets.values() for at in each.values())
        return into.append(rows_missing_from(into, letters, 0, end), number, offsets).rows
    except Exception as error:  # All of them - no common base class; our own bugs are raised again.
        if not has_message(error):
            raise
        raise DeadLettersFailed(into, error, batch_id, sink) from error
