"""A coordinator's writes: record batches appended to one partition of its internal topic, and their commit.

A batch is committed once the high watermark has passed it and, where flush.messages requires it, once it is on the
disk. Batches are committed in the order in which they were appended. After offsets.commit.timeout.ms the requests that
wait for a batch are answered REQUEST_TIMED_OUT, but the batch stays in the log and still takes effect when it is
committed. The same holds for a batch that is committed with fewer replicas in sync than min.insync.replicas: its
requests are answered NOT_ENOUGH_REPLICAS_AFTER_APPEND, and their clients retry.

With one replica in sync and no flush, a batch is committed when `append` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from sordini.broker.coordinators.ports import Ports
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.produce_validation import accept_own_batch
from sordini.replication.partition import Partition
from sordini.replication.ports import Timer
from sordini.replication.purgatory import DelayedOperation
from sordini.storage.errors import StorageError

OnDone = Callable[[ErrorCode], None]
KeyValue = tuple[bytes, bytes | None]

TOMBSTONE_BYTES_MAX = 256 * 1024
"""Keys in one batch of tombstones: far below any max.message.bytes in use."""


class UncommittedBatch:
    """One batch in the log that is not committed yet."""

    __slots__ = ("apply", "deadline_ms", "end_offset", "needs_flush", "on_done")

    def __init__(
        self, end_offset: int, deadline_ms: int, *, needs_flush: bool, apply: Callable[[], None], on_done: OnDone
    ) -> None:
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.needs_flush = needs_flush
        self.apply = apply
        self.on_done: OnDone | None = on_done


class Journal:
    """Appends to one partition while this broker leads it."""

    def __init__(self, partition: Partition, ports: Ports, *, codec: int, timeout_ms: int) -> None:
        """`timeout_ms` limits the wait for the commit of a batch."""
        self._partition = partition
        self._ports = ports
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._uncommitted: deque[UncommittedBatch] = deque()
        self._flushed_end = 0
        self._is_flushing = False
        self._waiter: DelayedOperation | None = None
        self._timer: Timer | None = None
        self._is_closed = False

    def append(self, records: Sequence[KeyValue], apply: Callable[[], None], on_done: OnDone) -> bool:
        """Append records as one batch; whether it is in the log. Raises nothing.

        `apply()` is called when the batch is committed. `on_done` is called once: with NONE after that, or with the
        error code (REQUEST_TIMED_OUT: not committed yet). Both may be called before this returns.
        """
        try:
            batch = self._append(records, apply, on_done)
        except BrokerError as error:
            on_done(error.code)
            return False
        except StorageError:
            on_done(ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        self._uncommitted.append(batch)
        self.complete_committed()
        if self._partition.purgatory:
            self._partition.notify_purgatory()
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

    def complete_committed(self) -> None:
        """Apply the batches that are committed by now, and answer their requests."""
        uncommitted = self._uncommitted
        while uncommitted and not self._is_closed and self._is_committed(uncommitted[0]):
            batch = uncommitted.popleft()
            is_under_min_isr = self._partition.is_under_min_isr
            batch.apply()
            if batch.on_done is not None:
                batch.on_done(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if is_under_min_isr else ErrorCode.NONE)
        self._arm_timer()

    def close(self) -> None:
        """The leadership ended: the requests of uncommitted batches are answered NOT_LEADER_OR_FOLLOWER."""
        self._is_closed = True
        self._arm_timer()
        if self._waiter is not None:
            self._waiter.cancel()
        while self._uncommitted:
            on_done = self._uncommitted.popleft().on_done
            if on_done is not None:
                on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _append(self, records: Sequence[KeyValue], apply: Callable[[], None], on_done: OnDone) -> UncommittedBatch:
        partition, clock = self._partition, self._ports.clock
        now_ms = clock.now_ms()
        batch = build_batch(
            [Record(number, now_ms, key, value) for number, (key, value) in enumerate(records)], codec=self._codec
        )
        checked = accept_own_batch(bytearray(batch), partition.settings.rules, now_ms)
        appended = partition.append(checked, now_ms, all_replicas=True)
        return UncommittedBatch(
            appended.end_offset,
            clock.monotonic_ms() + self._timeout_ms,
            needs_flush=partition.log.needs_flush,
            apply=apply,
            on_done=on_done,
        )

    def _is_committed(self, batch: UncommittedBatch) -> bool:
        """Whether a batch is committed; if not, makes sure that `complete_committed` is called again."""
        leader = self._partition.leader
        if leader is None:
            return False  # `close` follows.
        if batch.needs_flush and self._flushed_end < batch.end_offset:
            # First the flush: the high watermark does not pass what still has to be flushed.
            if not self._is_flushing:
                self._is_flushing = True
                self._ports.spawn(self._flush())
            return False
        if leader.high_watermark < batch.end_offset:
            if self._waiter is None or self._waiter.done:
                self._waiter = DelayedOperation(1, (self._partition,), self.complete_committed)
            return False
        return True

    async def _flush(self) -> None:
        log = self._partition.log
        end_offset = log.log_end_offset
        try:
            await log.flush()
        except (BrokerError, StorageError):
            # The log directory is offline, which ends the leadership. What is not on the disk is not committed.
            self._fail_requests(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        finally:
            self._is_flushing = False
        self._flushed_end = end_offset
        self.complete_committed()

    def _fail_requests(self, code: ErrorCode) -> None:
        """Answer all pending requests; the batches stay uncommitted."""
        for batch in list(self._uncommitted):
            if batch.on_done is not None:
                on_done, batch.on_done = batch.on_done, None
                on_done(code)
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
            if batch.on_done is not None and batch.deadline_ms <= now_ms:
                on_done, batch.on_done = batch.on_done, None
                on_done(ErrorCode.REQUEST_TIMED_OUT)
        self._arm_timer()


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
