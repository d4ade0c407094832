"""The state of one log, and every change of it: an append, a roll, a flush, a truncation, a deletion of segments.

`LogState` owns its fields: other modules of this folder read them, and change them through its methods only. The
modules around it (`appending`, `flushing`, `truncation`, ...) decide and do the work on files. `Log` is a LogState with
the operations that callers use; it inherits, because one more attribute on the way would cost every append and read.

Invariants, held between two calls:
  - segments do not overlap and rise; the last one is the active segment;
  - log_start_offset <= log_end_offset, and everything below the recovery point is on the disk;
  - records enter the log in `append_bytes` only, which alone decides when a segment must roll.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.storage import aborted_transactions
from sordini.storage.compaction.state import CompactionState
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.log_config import NEVER, LogConfig
from sordini.storage.log_dir_handle import LogDirHandle
from sordini.storage.producer_snapshots import write_snapshot
from sordini.storage.producer_state import ProducerState
from sordini.storage.segment import Segment
from sordini.storage.segment_list import RECENT_MAX, SegmentList
from sordini.storage.segment_roll import OFFSETS_MAX, UNDATED, age_from, age_max
from sordini.system.named_tuple import NamedTuple


class LogContents(NamedTuple):
    """What recovery found in a partition's directory, or what a new directory holds."""

    topic_id: TopicId
    segments: list[Segment]
    producers: ProducerState
    epochs: EpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    is_new: bool
    """The directory was just created: its own name may not be on the disk yet."""
    names_are_synced: bool


class UnsyncedMetadata(NamedTuple):
    """What a flush has to make durable besides the records."""

    names_changed: bool
    is_new: bool
    topic_id_changed: bool
    epochs: list[tuple[int, int]] | None
    """The leader epochs to write; None when they have not changed."""


class LogState:
    """The fields of one log. The owner of the log moves `high_watermark`; the log reads it for checkpoints only."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        log_dir: LogDirHandle,
        config: LogConfig,
        contents: LogContents,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.log_dir = log_dir
        self.topic_id = contents.topic_id
        self.epochs = contents.epochs
        self.producers = contents.producers
        self.log_start_offset = contents.log_start_offset
        self.log_end_offset = contents.log_end_offset
        self._recovery_point = contents.recovery_point
        self.high_watermark = contents.log_start_offset
        self.last_flush_ms = 0
        self.on_flushed: Callable[[], None] | None = None
        """Called when the recovery point has moved."""
        self.is_closed = False
        self.is_new = contents.is_new
        self.truncations = 0
        """Number of truncations: a flush that a truncation overtook leaves the recovery point alone."""
        self.compaction = CompactionState()
        self.segments = SegmentList(log_dir, directory, contents.segments)
        self.segments.names_changed = not contents.names_are_synced
        self.trusted_end = contents.log_end_offset if contents.names_are_synced else -1
        """The log end offset of the last clean shutdown; -1 after a crash."""
        self.topic_id_changed = not contents.names_are_synced and contents.topic_id != NO_TOPIC_ID
        self.config = config

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._interval_bytes = config.index_interval_bytes
        self._segment_bytes = config.segment_bytes
        self._flush_moved()
        self._draw_segment_age()

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the disk."""
        return self._recovery_point

    @recovery_point.setter
    def recovery_point(self, offset: int) -> None:
        self._recovery_point = offset
        self._flush_moved()

    def _flush_moved(self) -> None:
        messages = self._config.flush_messages
        self.flush_at = self._recovery_point + messages
        # A roll moves the recovery point back to the begin of the segment that it closes.
        # A prepared Produce did not know that, and was acknowledged before its flush (found by guided fuzzing).
        self.flush_at_if_rolled = min(self._recovery_point, self.segments.active.base) + messages
        self._note_flush()

    @property
    def size(self) -> int:
        """Bytes of records in all segments."""
        return sum(segment.size for segment in self.segments.all())

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self._recovery_point

    @property
    def needs_flush(self) -> bool:
        """Whether `flush.messages` is reached: `flush` must come before the response."""
        return self.log_end_offset >= self.flush_at

    @property
    def may_need_flush(self) -> bool:
        """Whether the periodic check has to read this log: closed segments are not synced, or a topic's key asks."""
        config = self._config
        is_rolled = self.segments.active.base > self._recovery_point
        return is_rolled or config.flush_ms != NEVER or config.flush_messages != NEVER

    @property
    def committable_end(self) -> int:
        """Up to where records may be committed: with `flush.messages`, a power failure may lose fewer than that."""
        end = self.log_end_offset
        return end if end < self.flush_at else max(self._recovery_point, self.high_watermark)

    def ensure_writable(self) -> None:
        """Raise StorageError when the directory is offline, and BrokerError when the log is closed."""
        self.log_dir.ensure_online()
        if self.is_closed:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {self.topic_partition} was closed")

    # Growing.

    def append_bytes(
        self, buffer: memoryview, size: int, base: int, end_offset: int, newest: int, now_ms: int
    ) -> Segment:
        """Write whole batches to the active segment in one call; the segment, at whose end they are.

        The batches have the offsets from `base` up to `end_offset`, and `newest` (ms) is their largest timestamp. Rolls
        first when the segment is too full or too old for them. On an error the segment is truncated to what it was.
        Raises BrokerError or StorageError. Indexes, leader epochs and producers are the caller's.
        """
        segments = self.segments
        segment = segments.active
        try:
            started = segment.first_timestamp
            if started is None:
                started = self._age_known(segment, newest)
            # The rule of `segment_roll.py`. Inlined: as a method it cost 3 % of a batched produce.
            must_roll = (
                (newest - started if started >= 0 else now_ms - segment.creation_ms(self.log_dir.disk))
                > self._segment_age_max
                or segment.size + size > self._segment_bytes
                or end_offset - segment.base > OFFSETS_MAX
                or segment.is_full
            )
            if must_roll:
                self.roll(now_ms)
                segment = segments.active
                segment.first_timestamp = age_from(newest)
        except OSError as error:
            raise self.log_dir.classify(error) from error
        handle = segment.handle
        handle.used = True
        try:
            written = (handle.file or handle.reopen()).append((buffer,))
        except OSError as error:
            self._undo_append(segment)
            raise self.log_dir.classify(error) from error
        if written != size:
            self._undo_append(segment)
            # A full disk accepts the part that fits.
            raise self.log_dir.classify(OSError(errno.ENOSPC, f"{written} of {size} bytes were written"))
        recent = segments.recent
        recent[base] = segment.size
        if len(recent) > RECENT_MAX:
            segments.forget_older()
        segment.size += size
        self.log_end_offset = end_offset
        return segment

    def _age_known(self, segment: Segment, newest: int) -> int:
        """The time from which the age of an active segment counts; that of an empty one begins with `newest`.

        Raises OSError.
        """
        segment.load(self._interval_bytes)
        if segment.size == 0:
            segment.first_timestamp = age_from(newest)
        else:
            segment.first_batch_timestamp()
        return UNDATED if segment.first_timestamp is None else segment.first_timestamp

    def _undo_append(self, segment: Segment) -> None:
        try:
            segment.file().truncate(segment.size)
        except OSError as error:
            raise self.log_dir.take_offline(error) from error

    def roll(self, now_ms: int) -> bool:
        """Begin a new segment if the active one holds anything; raises BrokerError or StorageError."""
        self.log_dir.ensure_online()
        active = self.segments.active
        if active.size == 0:
            return False
        try:
            active.load(self._interval_bytes)
            aborted_transactions.complete_index(self.segments, self.producers, active)
            self.log_dir.reservations.release(self.topic_partition)
            self.segments.roll(self.log_end_offset, now_ms)
            self.reserve()
        except OSError as error:
            raise self.log_dir.classify(error) from error
        # Its records may be on the disk, its indexes are not: a crash before the next flush rebuilds them.
        self.recovery_point = min(self._recovery_point, active.base)
        self.take_snapshot()
        self._draw_segment_age()
        self.log_dir.on_event("segment rolled", partition=str(self.topic_partition), base_offset=self.log_end_offset)
        return True

    def reserve(self) -> None:
        """With `preallocate`, reserve the active segment's disk space, if enough is free."""
        if self._config.preallocate:
            self.log_dir.reservations.take(self.topic_partition, self.segments.active, self._config.segment_bytes)

    def take_snapshot(self) -> None:
        """Write the producers' state at the log end. Not synced, and not essential: recovery can replay the log."""
        try:
            write_snapshot(self.log_dir.disk, self.directory, self.log_end_offset, self.producers)
        except OSError as error:
            if self.log_dir.fails_directory(error):
                raise self.log_dir.take_offline(error) from error

    # Flushing.

    def take_unsynced(self) -> UnsyncedMetadata:
        """Take what is to be made durable besides the records; `put_back` returns it when the flush fails."""
        taken = UnsyncedMetadata(
            self.segments.names_changed,
            self.is_new,
            self.topic_id_changed,
            self.epochs.entries if self.epochs.changed else None,
        )
        self.segments.names_changed = self.is_new = self.topic_id_changed = False
        self.epochs.saved()
        return taken

    def put_back(self, unsynced: UnsyncedMetadata) -> None:
        """Leave to the next flush what this one did not make durable."""
        self.segments.names_changed = self.segments.names_changed or unsynced.names_changed
        self.is_new = self.is_new or unsynced.is_new
        self.topic_id_changed = self.topic_id_changed or unsynced.topic_id_changed
        self.epochs.changed = self.epochs.changed or unsynced.epochs is not None

    def flushed(self, up_to: int) -> None:
        """Everything below `up_to` is on the disk."""
        self.recovery_point = max(self._recovery_point, up_to)
        if self.on_flushed is not None:
            self.on_flushed()

    def closed_cleanly(self) -> None:
        """Everything is on the disk: the log closes its files, and its recovery point is its end."""
        self.recovery_point = self.log_end_offset
        self.close_without_flush()

    # Shrinking.

    def lower_recovery_point(self, offset: int) -> None:
        """Write a recovery point of at most `offset` to the checkpoint, before a truncation. Raises OSError."""
        self.recovery_point = min(self._recovery_point, offset)
        self.log_dir.save_recovery_points()

    def truncated(self, end_offset: int, recovery_point: int) -> None:
        """The segments end at `end_offset` now: lower everything that depends on it. `restore_producers` follows."""
        self.log_end_offset = end_offset
        self.compaction.truncated_to(end_offset)
        self.recovery_point = min(recovery_point, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_from_end(end_offset)

    def truncated_fully(self, offset: int) -> None:
        """All segments are deleted, and the log starts at `offset` without leader epochs; `truncated` follows."""
        self.log_start_offset = self.high_watermark = offset
        self.log_dir.log_start_moved = True
        self.epochs.truncate_from_end(0)

    def restore_producers(self, producers: ProducerState) -> None:
        """After a truncation: the producers' state at the new log end offset."""
        self.producers = producers

    def advance_log_start(self, offset: int) -> None:
        """Hide the records below `offset`; the next retention pass deletes their segments."""
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.log_dir.log_start_moved = True
            self.epochs.truncate_from_start(self.log_start_offset)

    def mark_closed(self) -> None:
        """Refuse every further call; the files stay open until the log directory closes."""
        self.is_closed = True

    def close_without_flush(self) -> None:
        """Close every file as it is: the log was deleted, or its directory failed."""
        self.is_closed = True
        self.on_flushed = None  # Its partition refers to it: without this cycle both are freed at once.
        with contextlib.suppress(OSError):  # The reserved space is freed with the file.
            self.log_dir.reservations.release(self.topic_partition)
        self.segments.close()

    def _note_flush(self) -> None:
        """Let the periodic check read this log, if a flush may become due without another change of its state."""
        if self.may_need_flush:
            self.log_dir.flush_candidates[self.topic_partition] = None

    def _draw_segment_age(self) -> None:
        config = self._config
        self._segment_age_max = age_max(
            config.segment_ms, config.segment_jitter_ms, self.log_dir.randomness.getrandbits
        )
