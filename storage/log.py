"""One partition's log on one machine: records with dense offsets, in segments.

`append` promises the page cache, `flush` the disk. Everything but `flush` is synchronous, and between two calls the
log is whole: a failed call has cut back what it wrote, or the log directory is offline.

Invariants:
  - segments do not overlap and rise; the last is the active one;
  - log_start_offset <= log_end_offset, and what is below the recovery point is on the disk;
  - bytes once readable are never changed in place: a cut is announced to `on_truncate` first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import NO_TIMESTAMP, BatchHeader, stamp
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.storage import aborted_transactions, appending, flushing, timestamp_lookup
from sordini.storage.checkpoints import write_topic_id
from sordini.storage.compaction.state import CompactionState
from sordini.storage.file_slice import FileSlice
from sordini.storage.log_config import LogConfig
from sordini.storage.log_dir_handle import Home
from sordini.storage.log_state import Appended, LogContents
from sordini.storage.producer_state import AbortedTransaction
from sordini.storage.segment import OFFSETS_MAX
from sordini.storage.segment_list import RECENT_MAX, SegmentList
from sordini.storage.timestamp_lookup import TimestampOffset

_new = tuple.__new__


class Log:
    """The log of one partition. `high_watermark` is its owner's to move; the log reads it for checkpoints only."""

    def __init__(
        self, topic_partition: TopicPartition, directory: str, home: Home, config: LogConfig, contents: LogContents
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.home = home
        self.topic_id = contents.topic_id
        self.epochs = contents.epochs
        self.producers = contents.producers
        self.log_start_offset = contents.log_start_offset
        self.log_end_offset = contents.log_end_offset
        self._recovery_point = contents.recovery_point
        self.high_watermark = contents.log_start_offset
        self.last_flush_ms = 0
        self.on_truncate: Callable[[Log, int], None] | None = None
        self.on_flushed: Callable[[], None] | None = None
        """Told when more of the log is on the disk."""
        self.is_closed = False
        self.is_new = contents.is_new
        self.cuts = 0
        """How often the log was cut: a flush that a cut overtook proves nothing."""
        self.compaction = CompactionState()
        self.segments = SegmentList(home, directory, contents.segments)
        self.segments.names_changed = not contents.names_are_synced
        self.trusted_end = contents.log_end_offset if contents.names_are_synced else -1
        self.topic_id_changed = not contents.names_are_synced and contents.topic_id != NO_TOPIC_ID
        self.config = config

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._interval_bytes = config.index_interval_bytes
        self.flush_at = self._recovery_point + config.flush_messages
        self._draw_segment_age()

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the disk."""
        return self._recovery_point

    @recovery_point.setter
    def recovery_point(self, offset: int) -> None:
        self._recovery_point = offset
        self.flush_at = offset + self._config.flush_messages

    @property
    def size(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size for segment in self.segments.all())

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    @property
    def needs_flush(self) -> bool:
        """Whether so many records are unsynced that `flush` must come before the answer."""
        return self.log_end_offset >= self.flush_at

    @property
    def committable_end(self) -> int:
        """How far records may count as committed: with a bound on unsynced ones, a power cut may take no more."""
        end = self.log_end_offset
        return end if end < self.flush_at else max(self._recovery_point, self.high_watermark)

    # Writing.

    def append(
        self, buffer: memoryview, batches: list[tuple[int, BatchHeader]], leader_epoch: int, now_ms: int
    ) -> Appended:
        """Give checked batches their offsets, in place, and write them in one call: to the page cache.

        `buffer` holds the batches back to back and nothing else. Raises BrokerError for a producer that is out of
        order or fenced, for more than a segment holds, and for a full disk; StorageError when the directory is
        offline or goes offline by this.
        """
        if self.home.failure is not None or self.is_closed:
            self._refuse()
        base = offset = self.log_end_offset
        newest = NO_TIMESTAMP
        idempotent = False
        for position, header in batches:
            if header.producer_id >= 0:
                idempotent = True
                sent = appending.sent_before(self, header, now_ms)
                if sent is not None:
                    return appending.duplicate(self, sent)
            stamp(buffer, position, offset, leader_epoch)
            offset += header.last_offset_delta + 1
            if header.max_timestamp > newest:  # noqa: PLR1730 - a third of the cost of `max`.
                newest = header.max_timestamp
        segments = self.segments
        segment = segments.active
        size = len(buffer)
        started = segment.first_timestamp
        if (
            started is None
            or newest - started > self.segment_ms
            or segment.size + size > self._config.segment_bytes
            or offset - segment.base > OFFSETS_MAX
            or segment.is_full
        ):
            appending.check_size(self, size)
            segment = appending.room_for(self, size, offset, newest, now_ms)
        start = segment.size
        flushing.write(self.home, segment, buffer, size)
        recent = segments.recent
        recent[base] = start
        if len(recent) > RECENT_MAX:
            segments.forget_older()
        self.log_end_offset = offset
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base)
        if idempotent:
            appending.note_producers(self, segment, buffer, batches, base)
        if len(batches) > 1 or segment.unindexed_bytes > self._interval_bytes:
            appending.index_batches(self, segment, batches, base, start)
        else:
            segment.unindexed_bytes += size
            if newest > segment.max_timestamp:
                segment.max_timestamp = newest
                segment.max_timestamp_offset = offset - 1
        append_time_ms = now_ms if self._config.log_append_time else NO_TIMESTAMP
        return _new(Appended, (base, offset, append_time_ms, self.log_start_offset, False))

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch's leader starts at the log's end. Written down with the next flush or close:
        recovery finds in the batches whatever epochs the file lacks.
        """
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def set_topic_id(self, topic_id: TopicId) -> None:
        """Give a log that has none the id under which its topic is registered; raises StorageError."""
        assert topic_id != NO_TOPIC_ID
        try:
            write_topic_id(self.home.disk, self.directory, topic_id)
        except OSError as error:
            raise self.home.wrong(error) from error
        self.topic_id = topic_id
        self.topic_id_changed = self.segments.names_changed = True

    def roll(self, now_ms: int) -> bool:
        """Begin a new segment if the active one holds anything; raises BrokerError or StorageError."""
        self.home.check()
        active = self.segments.active
        if active.size == 0:
            return False
        try:
            active.load(self._interval_bytes)
            aborted_transactions.close_index(self, active)
            self.home.reservations.give_back(self.topic_partition)
            self.segments.roll(self.log_end_offset, now_ms)
            self.reserve()
        except OSError as error:
            raise self.home.wrong(error) from error
        # Its records may be on the disk already, its indexes are not: they are made anew until the next flush.
        self.recovery_point = min(self.recovery_point, active.base)
        flushing.take_snapshot(self)
        self._draw_segment_age()
        return True

    def reserve(self) -> None:
        """With `preallocate`, take the room that the active segment may come to need, if there is plenty."""
        if self._config.preallocate:
            self.home.reservations.take(self.topic_partition, self.segments.active, self._config.segment_bytes)

    async def flush(self) -> None:
        """Sync everything appended before the call, in a thread, and move the recovery point.

        Raises StorageError: a failed sync may have dropped the bytes, so the directory is offline.
        """
        await flushing.flush(self, rolled_only=False)

    async def flush_if_due(self) -> None:
        """As `flush`, if `needs_flush`. Whoever comes while a flush runs shares the next one with all who do: many
        producers wait for two syncs at most, not for one each.
        """
        if self.needs_flush:
            await flushing.flush(self, rolled_only=False, only_if_due=True)

    sync = flush

    # Reading.

    def read(self, start: int, bytes_max: int, below: int, *, whole_first: bool) -> FileSlice | None:
        """Bytes from the batch that holds `start` on, below `below`; None when there is nothing to give.

        At most `bytes_max`, which may cut the last batch; with `whole_first` the first batch is whole whatever its
        size. Never past a segment. Raises BrokerError OFFSET_OUT_OF_RANGE outside the log, and StorageError.
        """
        end_offset = self.log_end_offset
        limit = min(below, end_offset)
        if start >= limit:
            if start > end_offset or start < self.log_start_offset:
                self._out_of_range(start)
            return None
        if start < self.log_start_offset:
            self._out_of_range(start)
        if self.home.failure is not None or self.is_closed:
            self._refuse()
        segments = self.segments
        segment = segments.active
        try:
            position = segments.recent.get(start)
            base = start
            if position is None:
                found = segments.locate(start, self._interval_bytes)
                if found is None:
                    raise self._unreadable(start)
                segment, position, base = found
                if base >= limit:
                    return None
                end_offset = segments.end_of(segments.number_of(segment.base), end_offset)
            if limit < end_offset:
                size = segments.end_position(segment, limit, self._interval_bytes) - position
            else:
                size = segment.size - position
            if size > bytes_max:
                first = segments.batch_size(segment, position) if whole_first else 0
                size = min(size, max(bytes_max, first))
                if size <= 0:
                    return None
            return FileSlice(segment.handle, position, size, base, limit, self.topic_partition)
        except OSError as error:
            raise self.home.wrong(error) from error

    def find_timestamp(self, timestamp: int, below: int, budget: WorkBudget = UNBOUNDED) -> TimestampOffset | None:
        """The first record below `below` from time `timestamp` (ms) on; raises StorageError and BudgetExceeded."""
        self.home.check()
        try:
            return timestamp_lookup.find_timestamp(
                self.segments.all(), timestamp, self.log_start_offset, below, self._interval_bytes, budget
            )
        except OSError as error:
            raise self.home.wrong(error) from error

    def max_timestamp(self, budget: WorkBudget = UNBOUNDED) -> TimestampOffset | None:
        """The first record with the latest time; None in a log without times. Raises StorageError, BudgetExceeded."""
        self.home.check()
        try:
            return timestamp_lookup.max_timestamp(self.segments.all(), self._interval_bytes, budget)
        except OSError as error:
            raise self.home.wrong(error) from error

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where a read_committed reader stops: before the first record left of a transaction not decided below it."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else max(min(unstable, high_watermark), self.log_start_offset)

    def aborted_transactions(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Transactions aborted that have records between `start` and `upper`, in the order of their markers."""
        self.home.check()
        try:
            return aborted_transactions.aborted_transactions(self, start, upper)
        except OSError as error:
            raise self.home.wrong(error) from error

    # Shrinking.

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut every batch that ends at or after `offset`; False when the log does not reach so far.

        Either way no epoch is known any more that begins there or later: a leader that wrote nothing leaves one
        that the next leader knows nothing of. `on_truncate` hears of it before anything is cut. Raises StorageError.
        """
        self.home.check()
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)
            return False
        offset = max(offset, self.log_start_offset)
        if self.on_truncate is not None:
            self.on_truncate(self, offset)
        self.cuts += 1
        try:
            flushing.cut(self, offset, now_ms + self._config.file_delete_delay_ms)
        except OSError as error:
            raise self.home.fail(error) from error
        return True

    def begin_anew(self, offset: int, now_ms: int) -> None:
        """Forget all records; the next one appended has this offset. Raises StorageError.

        For a follower whose leader has none of them any more.
        """
        self.home.check()
        if self.on_truncate is not None:
            self.on_truncate(self, self.log_start_offset)
        self.cuts += 1
        try:
            flushing.begin_anew(self, offset, now_ms + self._config.file_delete_delay_ms)
        except OSError as error:
            raise self.home.fail(error) from error

    def advance_log_start(self, offset: int) -> None:
        """Hide the records below `offset`; their segments go with the next retention pass."""
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.home.log_start_moved = True
            self.epochs.truncate_from_start(self.log_start_offset)

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[int]:
        """Delete the segments that are due; their base offsets. Raises StorageError.

        The files keep a `.deleted` name until `file_delete_delay_ms` has passed; `take_due` then gives them out.
        """
        self.home.check()
        try:
            return flushing.delete_due(self, now_ms, high_watermark)
        except OSError as error:
            raise self.home.wrong(error) from error

    def take_due(self, now_ms: int) -> list[str]:
        """Paths of deleted segments' files whose time is up, for the caller to remove."""
        return self.segments.take_due(now_ms)

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long; how many."""
        self.producers.mark(now_ms, self.log_end_offset)
        return self.producers.expire(now_ms, self._config.producer_expiration_ms)

    def abandon(self) -> None:
        """Let every file go as it is: the log was deleted, or its directory failed."""
        self.is_closed = True
        with contextlib.suppress(OSError):  # What cannot be freed now is freed with the file.
            self.home.reservations.give_back(self.topic_partition)
        self.segments.release()

    # Helpers, in the order in which they are called above.

    def _refuse(self) -> None:
        self.home.check()
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {self.topic_partition} was closed")

    def _unreadable(self, start: int) -> BrokerError:
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: no batch is at offset {start} or later")

    def _out_of_range(self, start: int) -> None:
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition} holds {self.log_start_offset} to {self.log_end_offset}, not {start}",
        )

    def _draw_segment_age(self) -> None:
        """Each segment rolls a little earlier than the configuration says, so that not all partitions do at once."""
        config = self._config
        jitter_ms = config.segment_jitter_ms
        drawn = self.home.randomness.getrandbits(48) % jitter_ms if jitter_ms > 0 else 0
        self.segment_ms = config.segment_ms - drawn
