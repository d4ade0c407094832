"""One partition's log on one machine: records with dense offsets, in segments.

`append` promises the page cache, `flush` the disk. Everything but `flush` is synchronous, and between two calls the
log is whole: a failed append leaves no bytes, or the log directory is offline. What a log consists of, and its
invariants, are in `log_state`; this module has what callers do with it. Bytes once readable are never changed in
place: before a truncation `LogDirHandle.before_truncate` is called.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import (
    CONTROL_BIT,
    EPOCH_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_epoch,
    pack_offset,
)
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget
from sordini.protocol.types import NO_TOPIC_ID, TopicId
from sordini.storage import (
    aborted_transactions,
    appending,
    flushing,
    segment_deletion,
    timestamp_lookup,
    truncation,
)
from sordini.storage.appending import LogAppendInfo
from sordini.storage.checkpoints import write_topic_id
from sordini.storage.file_slice import FileSlice
from sordini.storage.log_state import LogState
from sordini.storage.producer_state import SEQUENCE_MAX, AbortedTransaction, SentBatch
from sordini.storage.timestamp_lookup import TimestampOffset

_new = tuple.__new__


class Log(LogState):
    """The log of one partition."""

    # Writing.

    def append(
        self, buffer: memoryview, batches: list[tuple[int, BatchHeader]], leader_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        """Assign offsets to checked batches, in place, and write them in one call: to the page cache.

        `buffer` holds the batches back to back and nothing else. Raises BrokerError for a producer that is out of
        order or fenced, for more than a segment holds, and for a full disk; StorageError when the directory is
        offline or goes offline by this.
        """
        if self.log_dir.failure is not None or self.is_closed:
            self.ensure_writable()
        base = offset = self.log_end_offset
        newest = NO_TIMESTAMP
        idempotent = False
        for position, header in batches:
            if header.producer_id >= 0:
                idempotent = True
                if not self.producers.expects(header.producer_id, header.producer_epoch, header.base_sequence):
                    sent = appending.find_duplicate(self, header, now_ms)
                    if sent is not None:
                        return appending.duplicate_info(self, sent)
            # As `stamp`, inlined.
            pack_offset(buffer, position, offset)
            pack_epoch(buffer, position + EPOCH_POSITION, leader_epoch)
            offset += header.last_offset_delta + 1
            if header.max_timestamp > newest:  # noqa: PLR1730 - a third of the cost of `max`.
                newest = header.max_timestamp
        size = len(buffer)
        if size > self._segment_bytes:
            raise appending.too_large(self, size)
        segment = self.append_bytes(buffer, size, base, offset, newest, now_ms)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base)
        if idempotent:
            if len(batches) == 1 and header.base_sequence >= 0 and not header.attributes & CONTROL_BIT:
                # As `note_producers` for one batch of records, inlined: it takes seven calls.
                last_sequence = header.base_sequence + header.last_offset_delta & SEQUENCE_MAX
                noted = _new(SentBatch, (header.base_sequence, last_sequence, base, offset - 1, header.max_timestamp))
                is_transactional = header.attributes & TRANSACTIONAL_BIT != 0
                self.producers.apply(
                    header.producer_id, header.producer_epoch, noted, is_transactional=is_transactional
                )
            else:
                appending.note_producers(self, segment, buffer, batches, base)
        if len(batches) > 1 or segment.unindexed_bytes > self._interval_bytes:
            appending.index_batches(self, segment, batches, base, segment.size - size)
        else:
            # As `index_batch` for one batch without an index entry, inlined: this is the usual append.
            segment.unindexed_bytes += size
            if newest > segment.max_timestamp:
                segment.max_timestamp = newest
                segment.max_timestamp_offset = offset - 1
        append_time_ms = now_ms if self._config.log_append_time else NO_TIMESTAMP
        return _new(LogAppendInfo, (base, offset, append_time_ms, self.log_start_offset, False))

    def assign_epoch(self, leader_epoch: int) -> None:
        """Note that this epoch's leader starts at the log end. The next flush or close writes it; recovery finds
        epochs that the file lacks in the batches.
        """
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def set_topic_id(self, topic_id: TopicId) -> None:
        """Give a log that has none the id under which its topic is registered; raises StorageError."""
        assert topic_id != NO_TOPIC_ID
        try:
            write_topic_id(self.log_dir.disk, self.directory, topic_id)
        except OSError as error:
            raise self.log_dir.classify(error) from error
        self.topic_id = topic_id
        self.topic_id_changed = self.segments.names_changed = True

    async def flush(self, *, rolled_only: bool = False) -> None:
        """Sync everything appended before the call, in a thread, and move the recovery point.

        With `rolled_only`, what closed segments hold. Raises StorageError: a failed sync may have dropped the bytes, so
        the directory is offline.
        """
        await flushing.flush(self, rolled_only=rolled_only)

    async def flush_if_due(self) -> None:
        """As `flush`, if `needs_flush`. Callers that come while a flush runs share the next one: each waits for two
        syncs at most.
        """
        if self.needs_flush:
            await flushing.flush(self, rolled_only=False, only_if_due=True)

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
        if self.log_dir.failure is not None or self.is_closed:
            self.ensure_writable()
        segments = self.segments
        segment = segments.active
        try:
            position = segments.recent.get(start)
            base, batch_bytes = start, 0
            if position is None:
                found = segments.locate(start, self._interval_bytes)
                if found is None:
                    raise self._unreadable(start)
                segment, position, base, batch_bytes = found
                if base >= limit:
                    return None
                if segment is not segments.active:
                    end_offset = segments.end_of(segments.number_of(segment.base), end_offset)
            if limit < end_offset:
                size = segments.end_position(segment, limit, self._interval_bytes) - position
            else:
                size = segment.size - position
            if size > bytes_max:
                if whole_first:
                    bytes_max = max(bytes_max, batch_bytes or segments.batch_size(segment, position))
                size = min(size, bytes_max)
                if size <= 0:
                    return None
            return FileSlice(segment.handle, position, size, base, limit, self.topic_partition)
        except OSError as error:
            raise self.log_dir.classify(error) from error

    def find_timestamp(self, timestamp: int, below: int, budget: WorkBudget = UNBOUNDED) -> TimestampOffset | None:
        """The first record below `below` from time `timestamp` (ms) on; raises StorageError and BudgetExceeded."""
        self.log_dir.ensure_online()
        try:
            return timestamp_lookup.find_timestamp(
                self.segments.all(), timestamp, self.log_start_offset, below, self._interval_bytes, budget
            )
        except OSError as error:
            raise self.log_dir.classify(error) from error

    def max_timestamp(self, budget: WorkBudget = UNBOUNDED) -> TimestampOffset | None:
        """The first record with the latest time; None in a log without times. Raises StorageError, BudgetExceeded."""
        self.log_dir.ensure_online()
        try:
            return timestamp_lookup.max_timestamp(self.segments.all(), self._interval_bytes, budget)
        except OSError as error:
            raise self.log_dir.classify(error) from error

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where a read_committed reader stops: before the first record left of a transaction not decided below it."""
        return self.producers.unstable.last_stable_offset(high_watermark, self.log_start_offset)

    def end_bound(self, piece: FileSlice) -> int:
        """An offset that no record of a slice of this log reaches, as near as the index says. Raises StorageError."""
        number = self.segments.number_of(piece.base)
        segment, end = self.segments.all()[number], piece.position + piece.size
        try:
            near = None if end >= segment.size else segment.offset_bound(end, self._interval_bytes)
        except OSError as error:
            raise self.log_dir.classify(error) from error
        return min(piece.end_offset, self.segments.end_of(number, self.log_end_offset) if near is None else near)

    def aborted_transactions(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Transactions aborted that have records between `start` and `upper`, in the order of their markers."""
        self.log_dir.ensure_online()
        try:
            return aborted_transactions.find_aborted(self.segments, self.producers, self.log_end_offset, start, upper)
        except OSError as error:
            raise self.log_dir.classify(error) from error

    # Shrinking.

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Truncate every batch that ends at or after `offset`; False when the log end is not above it.

        Either way the epochs that begin there or later are removed: an epoch whose leader wrote nothing would be
        unknown to the next leader. Raises StorageError.
        """
        self.log_dir.ensure_online()
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)
            return False
        self.truncations += 1
        due_ms = now_ms + self._config.file_delete_delay_ms
        try:
            truncation.truncate_to(self, max(offset, self.log_start_offset), due_ms)
        except OSError as error:
            raise self.log_dir.take_offline(error) from error
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Delete all records; the next one appended has this offset. Raises StorageError.

        For a follower whose leader has none of its records any more.
        """
        self.log_dir.ensure_online()
        self.truncations += 1
        try:
            truncation.truncate_fully_and_start_at(self, offset, now_ms + self._config.file_delete_delay_ms)
        except OSError as error:
            raise self.log_dir.take_offline(error) from error

    def apply_retention(self, now_ms: int, high_watermark: int) -> list[int]:
        """Delete the segments that are due; their base offsets. Raises StorageError.

        The files keep a `.deleted` name until `file_delete_delay_ms` has passed; `take_due` then hands them over.
        """
        self.log_dir.ensure_online()
        try:
            return segment_deletion.delete_due(self, now_ms, high_watermark)
        except OSError as error:
            raise self.log_dir.classify(error) from error

    def take_due(self, now_ms: int) -> list[str]:
        """Paths of deleted segments' files that are due, for the caller to remove."""
        return self.segments.take_due(now_ms)

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for too long; their number."""
        self.producers.mark(now_ms, self.log_end_offset)
        return self.producers.expire(now_ms, self._config.producer_expiration_ms)

    # Helpers, in the order in which they are called above.

    def _unreadable(self, start: int) -> BrokerError:
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory}: no batch is at offset {start} or later")

    def _out_of_range(self, start: int) -> None:
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition} holds {self.log_start_offset} to {self.log_end_offset}, not {start}",
        )
