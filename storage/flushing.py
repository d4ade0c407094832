"""What a log does with its files as a whole: flushing, snapshots, retention, cutting. `closing` is their end."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from sordini.storage.checkpoints import sync_topic_id, write_epochs
from sordini.storage.compaction.segment_replacement import withdraw
from sordini.storage.disk import Disk, File
from sordini.storage.log_dir_handle import NO_DESCRIPTOR, Home, condemns
from sordini.storage.open_files import Handle
from sordini.storage.producer_replay import refill_windows, replay
from sordini.storage.producer_snapshots import newest_snapshot, remove_snapshots, snapshot_offsets, write_snapshot
from sordini.storage.producer_state import ProducerState
from sordini.storage.retention import RetentionContext, SegmentAge
from sordini.storage.segment import Segment

if TYPE_CHECKING:
    from sordini.storage.log import Log


def write(home: Home, segment: Segment, buffer: memoryview, size: int) -> None:
    """Append bytes to a segment in one call, or leave it as it was. Raises BrokerError or StorageError."""
    handle = segment.handle
    handle.used = True
    try:
        written = (handle.file or handle.reopen()).append((buffer,))
    except OSError as error:
        _cut_back(home, segment)
        raise home.wrong(error) from error
    if written != size:
        _cut_back(home, segment)
        # A full disk takes the part that fits.
        raise home.wrong(OSError(errno.ENOSPC, f"{written} of {size} bytes were written"))
    segment.size += size


def _cut_back(home: Home, segment: Segment) -> None:
    try:
        segment.file().truncate(segment.size)
    except OSError as error:
        raise home.fail(error) from error


async def flush(log: Log, *, rolled_only: bool, only_if_due: bool = False) -> None:
    """Sync what was appended before the call, or only what closed segments hold, and move the recovery point.

    Raises StorageError, and BrokerError when no file can be opened. A cut meanwhile leaves the recovery point
    where the cut put it.
    """
    # One at a time: a flush that runs has taken the log's marks of what else is unsynced, and may still fail.
    target, cuts = log.log_end_offset, log.cuts
    async with log.segments.flushing:
        if only_if_due and (not log.needs_flush or (log.recovery_point >= target and log.cuts == cuts)):
            return  # The one that ran, or waited before us, took our records along.
        await _flush(log, rolled_only=rolled_only)


async def _flush(log: Log, *, rolled_only: bool) -> None:
    home = log.home
    home.check()
    active = log.segments.active
    up_to = active.base if rolled_only else log.log_end_offset
    if up_to <= log.recovery_point and not log.epochs.changed:
        return
    pinned = _pinned(log, unsynced(log, with_active=not rolled_only))
    cuts = log.cuts
    names_changed, log.segments.names_changed = log.segments.names_changed, False
    is_new, log.is_new = log.is_new, False
    topic_id_changed, log.topic_id_changed = log.topic_id_changed, False
    epochs = log.epochs.entries if log.epochs.changed else None
    log.epochs.saved()

    def sync() -> bool:
        for _, file in pinned:
            file.sync()
        if log.is_closed:
            # Deleted meanwhile: another log may have the directory's name by now.
            return True
        if topic_id_changed:
            sync_topic_id(home.disk, log.directory)
        saved = epochs is None or _save_epochs(home.disk, log.directory, epochs)
        if names_changed:
            home.disk.sync_directory(log.directory)
        if is_new:
            home.disk.sync_directory(home.path)
        return saved

    done = False
    try:
        done = await home.disk.offload(sync)
    except OSError as error:
        # Deleted meanwhile: there is nothing left to promise.
        if log.is_closed:
            return
        # No descriptor to open another file with says nothing of the bytes; a sync that fails may have dropped them.
        raise (home.wrong(error) if error.errno in NO_DESCRIPTOR else home.fail(error)) from error
    finally:
        for handle, _ in pinned:
            handle.unpin()
        if not done:
            # Failed, cancelled, or no room for the epochs: the next flush does it again.
            log.segments.names_changed = log.segments.names_changed or names_changed
            log.is_new = log.is_new or is_new
            log.topic_id_changed = log.topic_id_changed or topic_id_changed
            log.epochs.changed = log.epochs.changed or epochs is not None
    if not rolled_only and log.segments.active is not active:
        up_to = active.base  # Rolled meanwhile: its indexes were not among the files.
    # Where the epochs found no room, recovery has to read them in the batches.
    if done and log.cuts == cuts:
        log.recovery_point = max(log.recovery_point, up_to)
        if log.on_flushed is not None:
            log.on_flushed()


def _save_epochs(disk: Disk, directory: str, epochs: list[tuple[int, int]]) -> bool:
    """Write the epochs down; False when there is no room."""
    try:
        write_epochs(disk, directory, epochs)
    except OSError as error:
        if condemns(error):
            raise
        return False
    return True


def _pinned(log: Log, handles: list[Handle]) -> list[tuple[Handle, File]]:
    pinned: list[tuple[Handle, File]] = []
    try:
        pinned.extend((handle, handle.pin()) for handle in handles)
    except OSError as error:
        for handle, _ in pinned:
            handle.unpin()
        raise log.home.wrong(error) from error
    return pinned


def take_snapshot(log: Log) -> None:
    """Write the producers' state at the log's end. Not synced, and not essential: recovery can replay the log."""
    try:
        write_snapshot(log.home.disk, log.directory, log.log_end_offset, log.producers)
    except OSError as error:
        if log.home.is_condemned_by(error):
            raise log.home.fail(error) from error


def delete_due(log: Log, now_ms: int, high_watermark: int) -> list[int]:
    """Delete the segments that retention says are due; their base offsets. Raises OSError."""
    if log.compaction.is_running:
        return []  # What is being read to be replaced stays until then.
    ages = SegmentAges(log)
    context = RetentionContext(log.topic_partition, now_ms, log.size, log.log_start_offset, high_watermark, log.config)
    count = log.home.retention.due(ages, context)
    if not count:
        return []
    last = ages[count - 1]
    if last.is_active:
        log.roll(now_ms)
    # The start moves first: a reader must never be sent to a segment that has gone.
    log.advance_log_start(last.end_offset)
    removed = log.segments.remove_first(count, now_ms + log.config.file_delete_delay_ms)
    remove_snapshots(log.home.disk, log.directory, below=log.segments.all()[0].base)
    return removed


class SegmentAges(Sequence[SegmentAge]):
    """What retention asks of a log's segments as they are now, oldest first.

    A segment's age is found out when it is asked for, as its indexes must be read for it. Raises OSError.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._segments = log.segments.all()
        self._known: dict[int, SegmentAge] = {}

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, number: int) -> SegmentAge: ...
    @overload
    def __getitem__(self, number: slice) -> list[SegmentAge]: ...
    def __getitem__(self, number: int | slice) -> SegmentAge | list[SegmentAge]:
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        at = range(len(self))[number]
        if at not in self._known:
            self._known[at] = self._age(at)
        return self._known[at]

    def _age(self, at: int) -> SegmentAge:
        log, segments = self._log, self._segments
        segment, is_active = segments[at], at + 1 == len(segments)
        return SegmentAge(
            log.log_end_offset if is_active else segments[at + 1].base,
            segment.size,
            segment.largest_timestamp(log.config.index_interval_bytes, log.home.disk),
            is_active,
        )


def cut(log: Log, offset: int, due_ms: int) -> None:
    """Cut the log before the batch that holds `offset`, with all that knew of the rest. Raises OSError.

    The recovery point is on the disk before the cut: records written over the place later must be checked again.
    """
    withdraw(log)
    recovery_point = log.recovery_point
    # A roll moves the point back in memory alone.
    if offset < max(recovery_point, log.home.saved_recovery_point(log.topic_partition)):
        # The cut comes where the batch that holds `offset` begins, which may be before it.
        found = log.segments.locate(offset, log.config.index_interval_bytes)
        log.recovery_point = min(recovery_point, offset if found is None else found[2])
        log.home.save_recovery_points()
    segment = log.segments.all()[log.segments.number_of(offset)]
    place = segment.find(offset, log.config.index_interval_bytes)
    if place is not None and segment.handle.file is not None:
        log.home.on_cut(segment.handle.file, place[0])
    end_offset = log.segments.truncate_to(offset, log.config.index_interval_bytes, due_ms)
    if end_offset < log.log_start_offset:
        # The batch around the log's start began before it: what was deleted stays so, and no offset comes again.
        end_offset = log.log_start_offset
        log.segments.begin_anew(end_offset, due_ms)
    _ended_at(log, end_offset, recovery_point)


def begin_anew(log: Log, offset: int, due_ms: int) -> None:
    """Put one empty segment that begins at `offset` in the place of all. Raises OSError."""
    withdraw(log)
    recovery_point = log.recovery_point
    log.recovery_point = min(recovery_point, log.segments.all()[0].base)
    log.home.save_recovery_points()
    for segment in log.segments.all():
        if segment.handle.file is not None:
            log.home.on_cut(segment.handle.file, 0)
    log.segments.begin_anew(offset, due_ms)
    log.log_start_offset = offset
    log.home.log_start_moved = True
    log.high_watermark = offset
    log.epochs.truncate_from_end(0)
    _ended_at(log, offset, offset)


def _ended_at(log: Log, end_offset: int, recovery_point: int) -> None:
    """The files end here now: make that durable, and bring all that depends on it down."""
    log.log_end_offset = end_offset
    # Else a power failure could undo the cut below what is appended next, and mix the two.
    log.segments.active.file().sync()
    log.home.disk.sync_directory(log.directory)
    log.compaction.truncated_to(log.log_end_offset)
    log.recovery_point = min(recovery_point, log.log_end_offset)
    log.high_watermark = min(log.high_watermark, log.log_end_offset)
    log.epochs.truncate_from_end(log.log_end_offset)
    if log.epochs.changed:
        write_epochs(log.home.disk, log.directory, log.epochs.entries)
        log.epochs.saved()
    remove_snapshots(log.home.disk, log.directory, above=log.log_end_offset)
    log.producers = rebuild_producers(log)


def rebuild_producers(log: Log) -> ProducerState:
    """The producers' state at the log's end, from the newest snapshot and the batches after it. Raises OSError."""
    disk = log.home.disk
    offsets = snapshot_offsets(disk.list_directory(log.directory))
    snapshot = newest_snapshot(disk, log.directory, offsets, log.log_end_offset)
    start, producers = snapshot if snapshot is not None else (0, ProducerState())
    segments = log.segments
    replay(producers, segments.all()[segments.number_of(start) :], start)
    refill_windows(producers, segments.all(), log.config.index_interval_bytes)
    return producers


def unsynced(log: Log, *, with_active: bool, with_active_indexes: bool = False) -> list[Handle]:
    """The files that may hold unsynced bytes. The active segment's indexes are rebuilt by recovery, so no flush
    waits for them; a clean stop does.
    """
    handles: list[Handle] = []
    for number, segment in enumerate(log.segments.all()):
        is_active = segment is log.segments.active
        if is_active and not with_active:
            break
        if is_active or log.segments.end_of(number, log.log_end_offset) > log.recovery_point:
            handles += segment.handles() if with_active_indexes or not is_active else [segment.handle]
            if segment.transactions.exists:
                handles.append(segment.transactions.handle)
    return handles
