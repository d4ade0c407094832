"""A topic as a sink, exactly once: a batch is one transaction, which has the job's position, too.

The position is in the metadata of the offsets that the transaction commits to the group named like the transactional
id (`source/transaction_notes.py`), so it is there exactly if the rows are. `append` and `last` are those of a table,
and `load` and `stream` may take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from sordini.pipeline.jobs.topic_records import COLUMNS, records_of, writer_options
from sordini.pipeline.schemas.fields import RECORD, RecordColumns
from sordini.pipeline.source.positions import Offsets
from sordini.pipeline.source.sink_options import STAGING, SinkOptions, TransactionOptions, read_sink_options
from sordini.pipeline.source.staged_records import StagedFile
from sordini.pipeline.source.transaction_notes import Note
from sordini.pipeline.source.transaction_writer import TransactionWriter, new_session, note_texts
from sordini.pipeline.tables import Written
from sordini.pipeline.tables.table import WrongBatch
from sordini.protocol.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_STAGED = "path string, records long, bytes long, places string"


class TransactionalTopic:
    """A topic that is written under a transactional id. One thread uses it."""

    def __init__(self, topic: str, options: Mapping[str, str], staging: str, record: RecordColumns = RECORD) -> None:
        """`options` are the sink's and those of its connections; `staging` is a folder that all executors reach.

        Raises BadSetting.
        """
        self.topic = topic
        self._record = record
        self._given = options
        self.options = read_sink_options({STAGING: staging, **writer_options(options), "topic": topic}, dict(COLUMNS))
        # As long as the job runs: a later run of the job fences this one.
        self._session = new_session(self.options)

    @property
    def location(self) -> str:
        """For messages."""
        return f"topic {self.topic}"

    @property
    def transaction(self) -> TransactionOptions:
        """How it writes."""
        assert self.options.transaction is not None, "the sink has a transactional id"
        return self.options.transaction

    @property
    def group(self) -> str:
        """Whose offsets have the position."""
        return self.transaction.transactional_id

    def schema(self) -> None:
        """Check that the cluster can be reached. Raises Unreachable, Unauthorized."""
        with self._writer() as writer:
            writer.check()

    def noted(self) -> tuple[int, Offsets] | None:
        """The last batch that is committed now, without fencing a run that is at work."""
        with self._writer() as writer:
            return _place(writer.last())

    def last(self) -> tuple[int, Offsets] | None:
        """The last batch and the offsets after it.

        An earlier run that is still at work is fenced first: what it had not committed is aborted.
        """
        with self._writer() as writer:
            writer.open()
            return _place(writer.last())

    def append(
        self,
        frame: DataFrame,
        batch_id: int,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        """Write the rows as batch `batch_id`, exactly once; see `Table.append`. Raises Fenced, WrongBatch."""
        with self._writer() as writer:
            writer.open()
            last = writer.last()
            if last is not None and last.batch_id >= batch_id:
                self._check_is_there(last, Note(batch_id, offsets or {}))
                return Written(0, 0, 0, was_there=True)
            texts = note_texts(Note(batch_id, offsets or {}), writer.partitions(self.topic))
        files = _staged(frame, batch_id, self._given, self.options, self._record)
        if before_commit is not None:
            before_commit()
        with self._writer() as writer:
            writer.write([file for file, _ in files], texts)
            writer.clean_up(batch_id)
        return Written(sum(file.records for file, _ in files), 0, sum(size for _, size in files), was_there=False)

    def _writer(self) -> TransactionWriter:
        """For a few requests: tasks may run for long in between."""
        return TransactionWriter(self.options, self.group, self._session)

    def _check_is_there(self, last: Note, note: Note) -> None:
        if last != note:
            raise WrongBatch(
                f"{self.location} has batch {last.batch_id} of '{self.group}' already, and this is batch "
                f"{note.batch_id}: another run of the job has continued"
            )


def _place(note: Note | None) -> tuple[int, Offsets] | None:
    return None if note is None else (note.batch_id, note.offsets)


def _staged(
    frame: DataFrame, batch_id: int, given: Mapping[str, str], options: SinkOptions, record: RecordColumns
) -> list[tuple[StagedFile, int]]:
    """Run the frame; the files of the successful task attempts, and the bytes of their values."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Late: the executor's process has its own modules.
        import pyarrow as pa
        import pyarrow.compute as pc

        from sordini.pipeline.source.staged_records import stage

        size = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal size
            for batch in batches:
                size += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
                yield batch

        file = stage(counted(), str(batch_id), options)
        if file is not None:
            numbers = ",".join(str(number) for _, number in file.partitions)
            row = {"path": [file.path], "records": [file.records], "bytes": [size], "places": [numbers]}
            yield pa.RecordBatch.from_pydict(row)

    assert options.topic is not None, "a job's sink names its topic"
    found = []
    for row in records_of(frame, given, record).mapInArrow(task, _STAGED).collect():
        places = tuple(TopicPartition(options.topic, int(number)) for number in row["places"].split(","))
        found.append((StagedFile(row["path"], row["records"], places), row["bytes"]))
    return found


def furthest(first: Offsets, second: Offsets) -> Offsets:
    """The greater offset of each partition."""
    merged = {topic: dict(partitions) for topic, partitions in first.items()}
    for topic, partitions in second.items():
        for number, at in partitions.items():
            ends = merged.setdefault(topic, {})
            ends[number] = max(at, ends.get(number, at))
    return merged
