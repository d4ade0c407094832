"""The driver's part of a transactional sink: the files that tasks have staged become one transaction.

Tasks encode and compress, which is the work; the driver only stamps the batches and sends them, so that a transaction
has one producer, whatever becomes of tasks: those that are lost, repeated or run twice have written nothing to a topic.

    open     fences every earlier writer of the transactional id, and ends the transaction that it left open
    last     the note of the newest transaction: whether a batch is committed is known now, and does not change
    write    batches and note in one transaction

A writer that was killed at any moment is repeated whole: before the end of its transaction, `open` aborts what it left;
after it, `last` has the batch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from sordini.client.transaction_requests import GroupOffset
from sordini.pipeline.errors import Fenced, PipelineError
from sordini.pipeline.source.client import LATEST, Client
from sordini.pipeline.source.client.transactions import Session
from sordini.pipeline.source.client.transport import SYSTEM, ClientPorts
from sordini.pipeline.source.sink_options import SinkOptions
from sordini.pipeline.source.staged_records import Entry, StagedFile, Staging
from sordini.pipeline.source.transaction_notes import Note, newest, to_pieces
from sordini.protocol.types import TopicPartition

log = logging.getLogger(__name__)

ROUND_BYTES: Final = 16 * 1024 * 1024
"""What is sent before the next batches are; at most this is read ahead, too."""


class Overtaken(PipelineError):
    """A later batch than this one is committed: another driver has continued."""


class TransactionWriter:
    """Transactions of one transactional id. One thread uses it."""

    def __init__(
        self, options: SinkOptions, group: str, session: Session | None = None, ports: ClientPorts = SYSTEM
    ) -> None:
        """`group` has the notes, and no other offsets. A `session` may be continued with other connections.

        Tests bring ports of their own.
        """
        assert options.transaction is not None, "the sink has a transactional id"
        self._client = Client(options.client, ports)
        self._group = group
        self._staging = Staging(options.transaction.staging)
        self._session = session or new_session(options)
        self._producer = self._client.producer(self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def check(self) -> None:
        """Check with one attempt that a broker answers. Raises Unreachable, Unauthorized."""
        self._client.check()

    def open(self) -> None:
        """Fence every earlier writer of the id, once; transactions before this one are over then."""
        if not self._session.is_open:
            self._producer.open()

    def last(self) -> Note | None:
        """The note of the last transaction; None where there is none. Raises BadNote."""
        return newest(self._client.notes(self._group).values(), self._group)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic, which brokers may create. Raises UnknownTopic."""
        self._client.create_missing([topic])
        return [TopicPartition(topic, number) for number in self._client.partitions([topic])[topic]]

    def write(self, files: Sequence[StagedFile], texts: Mapping[TopicPartition, str]) -> None:
        """Write the files as one transaction, with a note as the metadata of some partitions.

        Raises Fenced, and NotStaged for a file that is not there; nothing is visible then. After another error the
        transaction may be committed: a later writer's `last` has the answer.
        """
        try:
            self._write(files, texts)
        except Fenced:
            raise  # For ever: this writer does not open the id again.
        except PipelineError:
            self._abort()
            raise
        try:
            self._producer.commit()
        except Fenced:
            raise
        except PipelineError:
            self._session.forget()  # Not known to be committed: the next `open` and `last` find out.
            raise

    def clean_up(self, batch_id: int) -> None:
        """Delete the staged files of this batch and of all before it. A failure is logged: files are only left."""
        self._staging.discard(*(name for name in self._staging.names() if name.isdecimal() and int(name) <= batch_id))

    def discard(self, folder: str) -> None:
        """Delete one folder of staged files."""
        self._staging.discard(folder)

    def _write(self, files: Sequence[StagedFile], texts: Mapping[TopicPartition, str]) -> None:
        partitions = sorted({partition for file in files for partition in file.partitions})
        if partitions:
            self._producer.add(partitions)
        for batches in _rounds(entry for file in files for entry in self._staging.entries(file.path)):
            self._producer.send(batches)
        if not texts:
            return
        # The offsets are those of log ends, so that tools for lag show none for this group.
        ends = self._client.offsets(dict.fromkeys(texts, LATEST))
        offsets = {partition: GroupOffset(ends[partition], text) for partition, text in texts.items()}
        self._producer.add_offsets(self._group, offsets)

    def _abort(self) -> None:
        """Let readers pass now: they would wait until the transaction is too old, or another one is opened."""
        try:
            self._producer.abort()
        except PipelineError as error:
            log.warning("a transaction was not aborted: %s", error)
        self._session.forget()  # Sequences may have a gap now.


def new_session(options: SinkOptions) -> Session:
    """A session of the sink's transactional id, which is not open yet."""
    assert options.transaction is not None, "the sink has a transactional id"
    return Session(options.transaction.transactional_id, options.transaction.timeout_ms)


def note_texts(note: Note, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
    """A note in as many of these partitions as it needs. Raises PipelineError if they are too few."""
    pieces = to_pieces(note)
    if len(pieces) > len(partitions):
        raise PipelineError(
            f"the position after batch {note.batch_id} needs {len(pieces)} partitions for its note, and the topic has "
            f"{len(partitions)}: give it more, or read fewer partitions in one job"
        )
    return dict(zip(partitions, pieces, strict=False))


def _rounds(entries: Iterator[Entry]) -> Iterator[dict[TopicPartition, bytearray]]:
    """Groups of batches with one for each partition; those of one partition keep their order."""
    waiting: dict[TopicPartition, deque[bytearray]] = {}
    ahead = 0
    while True:
        while ahead < ROUND_BYTES and (entry := next(entries, None)) is not None:
            waiting.setdefault(entry.partition, deque()).append(entry.batch)
            ahead += len(entry.batch)
        if not waiting:
            return
        taken: dict[TopicPartition, bytearray] = {}
        for partition in list(waiting):
            queue = waiting.pop(partition)
            taken[partition] = queue.popleft()
            if queue:
                waiting[partition] = queue
        ahead -= sum(map(len, taken.values()))
        yield taken


def write_batch(
    files: Sequence[StagedFile], batch_id: int, query: str, options: SinkOptions, ports: ClientPorts = SYSTEM
) -> bool:
    """Write a micro-batch of a streaming query exactly once; whether it was not there yet. `query` is Spark's id.

    Spark stores a batch's range before the batch is run, so a repeated one has the same records. Raises Overtaken.
    """
    assert options.transaction is not None, "the sink has a transactional id"
    if not files:
        return True
    group = f"{options.transaction.transactional_id}-{query}"
    with TransactionWriter(options, group, ports=ports) as writer:
        writer.open()
        last = writer.last()
        if last is not None and last.batch_id > batch_id:
            raise Overtaken(
                f"batch {last.batch_id} of this query is committed, and this driver is at batch {batch_id}: another "
                "one continues with the same checkpoint, so this one stops"
            )
        is_new = last is None or last.batch_id < batch_id
        if is_new:
            first = min(partition for file in files for partition in file.partitions)
            writer.write(files, note_texts(Note(batch_id, {}), [first]))
        writer.clean_up(batch_id)
    return is_new


def write_once(files: Sequence[StagedFile], folder: str, options: SinkOptions) -> None:
    """Write a frame as one transaction: all of it or nothing. A repetition is another transaction."""
    assert options.transaction is not None, "the sink has a transactional id"
    if not files:
        return
    with TransactionWriter(options, "") as writer:
        writer.open()
        writer.write(files, {})
        writer.discard(folder)
