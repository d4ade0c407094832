"""A coordinator's writes: record batches appended to one partition of its internal topic, and their commit.

A batch is committed once the high watermark has passed it and, where flush.messages requires it, once it is on the
disk. Batches are committed in the order in which they were appended. After offsets.commit.timeout.ms the requests that
wait for a batch are answered REQUEST_TIMED_OUT, but the batch stays in the log and still takes effect when it is
committed. The same holds for a batch that is committed with fewer replicas in sync than min.insync.replicas: its
requests are answered NOT_ENOUGH_REPLICAS_AFTER_APPEND, and their clients retry.

With one replica in sync and no flush, a batch is committed when `append` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sordini.broker.coordinators.ports import Ports
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import CURRENT_MAGIC, Record, build_batch
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.lone_batch import lone_batch
from sordini.protocol.records.produced_records import accept_own_batch
from sordini.replication.acks import PartitionAppend, finish_appends
from sordini.replication.partition import Partition
from sordini.replication.ports import Timer
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple

OnDone = Callable[[ErrorCode], None]


class TransactionalProducer(NamedTuple):
    """The producer of a transaction that a coordinator writes to."""

    producer_id: int
    producer_epoch: int


KeyValue = tuple[bytes, bytes | None]

TOMBSTONE_BYTES_MAX = 256 * 1024
"""Keys in one batch of tombstones: far below any max.message.bytes in use."""


class UncommittedBatch:
    """One batch in the log that is not committed yet."""

    __slots__ = ("apply", "deadline_ms", "error_code", "on_done")

    def __init__(self, deadline_ms: int, *, apply: Callable[[], None], on_done: OnDone) -> None:
        self.deadline_ms = deadline_ms
        self.error_code: int = ErrorCode.NONE
        """Set by `replication/acks.py`."""
        self.apply = apply
        self.on_done: OnDone | None = on_done
        """None when the requests that wait for the batch are answered."""


class Journal:
    """Appends to one partition while this broker leads it."""

    def __init__(self, partition: Partition, ports: Ports, *, codec: int, timeout_ms: int) -> None:
        """`timeout_ms` limits the wait for the commit of a batch."""
        self._partition = partition
        self._ports = ports
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._uncommitted: dict[UncommittedBatch, None] = {}
        """In the order of their offsets."""
        self._timer: Timer | None = None
        self._is_closed = False

    def append(
        self,
        records: Sequence[KeyValue],
        apply: Callable[[], None],
        on_done: OnDone,
        producer: TransactionalProducer | None = None,
    ) -> bool:
        """Append records as one batch, of a producer's transaction if there is one; whether it is in the log.

        Raises nothing.
        `apply()` is called when the batch is committed. `on_done` is called once: with NONE after that, or with the
        error code (REQUEST_TIMED_OUT: not committed yet). Both may be called before this returns.
        """
        try:
            is_committed = self._append(records, apply, on_done, producer)
        except BrokerError as error:
            on_done(error.code)
            return False
        except StorageError:
            on_done(ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        if is_committed:
            apply()
            on_done(ErrorCode.NONE)
        return True

    def append_batches(self, records: Sequence[KeyValue], apply: Callable[[], None], on_done: OnDone) -> bool:
        """As `append`, with as many batches as the tombstones among the records need."""
        *first, last = _batches(records)
        codes: list[ErrorCode] = []
        for batch in first:
            if not self.append(batch, _nothing, codes.append):
                on_done(codes[-1])
                return False
        return self.append(last, apply, on_done)

    def close(self) -> None:
        """The leadership ended: the requests of uncommitted batches are answered NOT_LEADER_OR_FOLLOWER."""
        self._is_closed = True
        self._arm_timer()
        uncommitted, self._uncommitted = self._uncommitted, {}
        for batch in uncommitted:
            _answer(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _append(
        self,
        records: Sequence[KeyValue],
        apply: Callable[[], None],
        on_done: OnDone,
        producer: TransactionalProducer | None,
    ) -> bool:
        """Append one batch; whether it is committed."""
        partition, clock = self._partition, self._ports.clock
        now_ms = clock.now_ms()
        checked = accept_own_batch(self._batch_of(records, now_ms, producer), partition.settings.rules, now_ms)
        end_offset = partition.append(checked, now_ms, all_replicas=True).end_offset
        batch = UncommittedBatch(clock.monotonic_ms() + self._timeout_ms, apply=apply, on_done=on_done)
        append = PartitionAppend(partition, partition.require_leader(), end_offset, batch)
        unfinished = finish_appends([append], all_replicas=True)
        if unfinished is None:
            return True
        self._uncommitted[batch] = None
        unfinished.watch(partial(self._on_commit, batch), partial(self._on_flush_error, batch), self._ports.spawn)
        self._arm_timer()
        return False

    def _batch_of(self, records: Sequence[KeyValue], now_ms: int, producer: TransactionalProducer | None) -> bytearray:
        """Raises BrokerError UNSUPPORTED_FOR_MESSAGE_FORMAT for a transaction in a topic of an old format."""
        if producer is None and self._codec == NO_CODEC and len(records) == 1:
            return lone_batch(*records[0], now_ms)
        lines = [Record(number, now_ms, key, value) for number, (key, value) in enumerate(records)]
        if producer is None:
            return bytearray(build_batch(lines, codec=self._codec))
        if self._partition.settings.rules.magic != CURRENT_MAGIC:
            raise BrokerError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{self._partition.name} has an old format")
        # The producer's own sequences are not known here: every batch has 0, as Apache Kafka's coordinator writes it.
        batch = build_batch(
            lines,
            codec=self._codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        return bytearray(batch)

    def _on_commit(self, batch: UncommittedBatch) -> None:
        if batch.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER or self._is_closed:
            return  # `close` answers.
        del self._uncommitted[batch]
        batch.apply()
        _answer(batch, ErrorCode(batch.error_code))
        self._arm_timer()

    def _on_flush_error(self, batch: UncommittedBatch) -> None:
        """The batch stays, and takes effect if a later flush succeeds: an offline log directory ends the leadership."""
        _answer(batch, ErrorCode(batch.error_code))
        self._arm_timer()

    def _arm_timer(self) -> None:
        """Keep one timer, for the oldest batch with a pending request."""
        first = next((batch for batch in self._uncommitted if batch.on_done is not None), None)
        if first is None or self._is_closed:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            left_ms = max(first.deadline_ms - self._ports.clock.monotonic_ms(), 0)
            self._timer = self._ports.call_later(left_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._ports.clock.monotonic_ms()
        for batch in list(self._uncommitted):
            if batch.deadline_ms <= now_ms:
                _answer(batch, ErrorCode.REQUEST_TIMED_OUT)
        self._arm_timer()


def _answer(batch: UncommittedBatch, code: ErrorCode) -> None:
    """Answer the requests that wait for the batch, unless they are answered."""
    if batch.on_done is not None:
        on_done, batch.on_done = batch.on_done, None
        on_done(code)


def _batches(records: Sequence[KeyValue]) -> list[list[KeyValue]]:
    """Records with values form one batch, to be committed together; tombstones take as many batches as they need."""
    batches: list[list[KeyValue]] = [[]]
    size = 0
    for key, value in records:
        if value is None and size + len(key) > TOMBSTONE_BYTES_MAX:
            batches.append([])
            size = 0
        batches[-1].append((key, value))
        size += len(key)
    return batches


def _nothing() -> None:
    """All batches but the last change nothing by themselves."""
