"""What the coordinator writes down: batches at the end of one partition of __consumer_offsets, and when they count.

A batch counts once the high watermark has passed it and, where flush.messages asks for it, once it is on the disk.
Batches count in the order in which they were appended. One that takes longer than offsets.commit.timeout.ms is given
up for whoever waits, but it is in the log: it counts all the same when its time comes. So does one that counts while
fewer copies than min.insync.replicas are in sync: whoever waits is told that it is not safe, and writes it again.

With one replica in sync and no flush, all of that has happened when `append` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from sordini.broker.coordinators.ports import Ports, Timer
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.produce_validation import accept_own_batch
from sordini.replication.partition import Partition
from sordini.replication.purgatory import DelayedOperation
from sordini.storage.errors import StorageError

Ended = Callable[[ErrorCode], None]
KeyValue = tuple[bytes, bytes | None]


class Entry:
    """One batch in the log that does not count yet."""

    __slots__ = ("apply", "deadline_ms", "end_offset", "ended", "needs_flush")

    def __init__(
        self, end_offset: int, deadline_ms: int, *, needs_flush: bool, apply: Callable[[], None], ended: Ended
    ) -> None:
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.needs_flush = needs_flush
        self.apply = apply
        self.ended: Ended | None = ended


class Journal:
    """Appends to one partition while this broker leads it."""

    def __init__(self, partition: Partition, ports: Ports, *, codec: int, timeout_ms: int) -> None:
        self._partition = partition
        self._ports = ports
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._entries: deque[Entry] = deque()
        self._flushed_end = 0
        self._is_flushing = False
        self._waiter: DelayedOperation | None = None
        self._timer: Timer | None = None
        self._is_closed = False

    def append(self, records: Sequence[KeyValue], apply: Callable[[], None], ended: Ended) -> bool:
        """Write records as one batch; whether they are in the log. Nothing is raised.

        `apply()` is called when they count. `ended` is called once: with NONE after that, or with the code why they
        do not count (REQUEST_TIMED_OUT: not yet). Both may be called before this returns.
        """
        try:
            entry = self._append(records, apply, ended)
        except BrokerError as error:
            ended(error.code)
            return False
        except StorageError:
            ended(ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        self._entries.append(entry)
        self.settle()
        if self._partition.purgatory:
            self._partition.notify_purgatory()
        return True

    def settle(self) -> None:
        """See which batches count by now."""
        entries = self._entries
        while entries and not self._is_closed and self._counts(entries[0]):
            entry = entries.popleft()
            few = self._partition.is_under_min_isr
            entry.apply()
            if entry.ended is not None:
                entry.ended(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if few else ErrorCode.NONE)
        self._arm()

    def close(self) -> None:
        """Leadership is gone: nothing that does not count yet is known to, and whoever waits is told so."""
        self._is_closed = True
        self._arm()
        if self._waiter is not None:
            self._waiter.cancel()
        while self._entries:
            ended = self._entries.popleft().ended
            if ended is not None:
                ended(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _append(self, records: Sequence[KeyValue], apply: Callable[[], None], ended: Ended) -> Entry:
        partition, clock = self._partition, self._ports.clock
        now_ms = clock.now_ms()
        batch = build_batch(
            [Record(number, now_ms, key, value) for number, (key, value) in enumerate(records)], codec=self._codec
        )
        rules = partition.settings.rules
        checked = accept_own_batch(bytearray(batch), rules, now_ms)
        appended = partition.append(checked, now_ms, all_replicas=True)
        return Entry(
            appended.end_offset,
            clock.monotonic_ms() + self._timeout_ms,
            needs_flush=partition.log.needs_flush,
            apply=apply,
            ended=ended,
        )

    def _counts(self, entry: Entry) -> bool:
        """Whether a batch counts; if not, sees to it that somebody asks again."""
        leader = self._partition.leader
        if leader is None:
            return False  # `close` is on its way.
        if entry.needs_flush and self._flushed_end < entry.end_offset:
            # First: the high watermark does not pass what has to be on the disk and is not.
            if not self._is_flushing:
                self._is_flushing = True
                self._ports.spawn(self._flush())
            return False
        if leader.high_watermark < entry.end_offset:
            if self._waiter is None or self._waiter.done:
                self._waiter = DelayedOperation(1, (self._partition,), self.settle)
            return False
        return True

    async def _flush(self) -> None:
        log = self._partition.log
        end_offset = log.log_end_offset
        try:
            await log.flush()
        except (BrokerError, StorageError):
            # The directory is offline, and the leadership gone with it. What is not on the disk does not count.
            self._give_up(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        finally:
            self._is_flushing = False
        self._flushed_end = end_offset
        self.settle()

    def _give_up(self, code: ErrorCode) -> None:
        """Tell whoever waits that it failed; the batches stay where they are."""
        for entry in list(self._entries):
            if entry.ended is not None:
                ended, entry.ended = entry.ended, None
                ended(code)
        self._arm()

    def _arm(self) -> None:
        """Keep one timer, for the oldest batch that somebody waits for."""
        first = next((entry for entry in self._entries if entry.ended is not None), None)
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
        for entry in list(self._entries):
            if entry.ended is not None and entry.deadline_ms <= now_ms:
                ended, entry.ended = entry.ended, None
                ended(ErrorCode.REQUEST_TIMED_OUT)
        self._arm()
