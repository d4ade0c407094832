"""What a log does with its files as a whole: flushing, snapshots, cutting, closing.

The order in `close_cleanly` is the one that lets another broker, Apache Kafka included, trust the directory without
reading it: records, last time entries, trimmed indexes, snapshot, and only then what the log directory writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.storage.checkpoints import sync_topic_id, write_epochs
from sordini.storage.disk import Disk, File
from sordini.storage.home import PASSING, Home
from sordini.storage.names import SNAPSHOT, file_name
from sordini.storage.open_files import Handle
from sordini.storage.producer_replay import replay
from sordini.storage.producer_state import ProducerState
from sordini.storage.retention import SegmentAge, due_segments
from sordini.storage.segment import Segment
from sordini.storage.snapshots import newest_snapshot, remove_snapshots, write_snapshot

if TYPE_CHECKING:
    from sordini.storage.log import Log


def takes_the_directory(error: OSError) -> bool:
    """Whether a failed call means more than a full disk."""
    return error.errno not in PASSING


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
        # A full disk takes the part that fits; what else it may be, the next write will tell.
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{home.path}: {written} of {size} bytes were written")
    segment.size += size


def _cut_back(home: Home, segment: Segment) -> None:
    try:
        segment.file().truncate(segment.size)
    except OSError as error:
        raise home.fail(error) from error


async def flush(log: Log, *, rolled_only: bool) -> None:
    """Sync what was appended before the call, or only what closed segments hold, and move the recovery point.

    Raises StorageError, and BrokerError when no file can be opened. A cut meanwhile leaves the recovery point
    where the cut put it.
    """
    # One at a time: a flush that runs has taken the log's marks of what else is unsynced, and may still fail.
    async with log.segments.flushing:
        await _flush(log, rolled_only=rolled_only)


async def _flush(log: Log, *, rolled_only: bool) -> None:
    home = log.home
    home.check()
    active = log.segments.active
    up_to = active.base if rolled_only else log.log_end_offset
    if up_to <= log.recovery_point and not log.epochs.changed:
        return
    pinned = _pinned(log, _unsynced(log, with_active=not rolled_only))
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
        raise home.fail(error) from error
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
    if log.cuts == cuts:
        log.recovery_point = max(log.recovery_point, up_to)


def _save_epochs(disk: Disk, directory: str, epochs: list[tuple[int, int]]) -> bool:
    """Write the epochs down; False when there is no room. Recovery finds them in the batches, too."""
    try:
        write_epochs(disk, directory, epochs)
    except OSError as error:
        if takes_the_directory(error):
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
        write_snapshot(log.home.disk, log.directory, log.log_end_offset, log.producers, sync=False)
    except OSError as error:
        if takes_the_directory(error):
            raise log.home.fail(error) from error


def delete_due(log: Log, now_ms: int, high_watermark: int) -> list[int]:
    """Delete the segments that retention says are due; their base offsets. Raises OSError."""
    due = due_segments(segment_ages(log), log.size, log.config, now_ms, high_watermark, log.log_start_offset)
    if not due:
        return []
    if due[-1].is_active:
        log.roll(now_ms)
    # The start moves first: a reader must never be sent to a segment that has gone.
    log.advance_log_start(due[-1].end_offset)
    removed = log.segments.remove_first(len(due), now_ms + log.config.file_delete_delay_ms)
    remove_snapshots(log.home.disk, log.directory, below=log.segments.all()[0].base)
    return removed


def segment_ages(log: Log) -> Iterator[SegmentAge]:
    """What retention asks of the segments, oldest first. Raises OSError."""
    disk = log.home.disk
    interval_bytes = log.config.index_interval_bytes
    for number, segment in enumerate(log.segments.all()):
        yield SegmentAge(
            log.segments.end_of(number, log.log_end_offset),
            segment.size,
            segment.largest_timestamp(interval_bytes, disk),
            segment is log.segments.active,
        )


def cut(log: Log, offset: int, due_ms: int) -> None:
    """Cut the log before the batch that holds `offset`, with all that knew of the rest. Raises OSError.

    The recovery point is on the disk before the cut: records written over the place later must be checked again.
    """
    if offset < log.recovery_point:
        log.recovery_point = offset
        log.home.save_recovery_points()
    log.log_end_offset = log.segments.truncate_to(offset, log.config.index_interval_bytes, due_ms)
    # Else a power failure could undo the cut below what is appended next, and mix the two.
    log.segments.active.file().sync()
    log.home.disk.sync_directory(log.directory)
    log.recovery_point = min(log.recovery_point, log.log_end_offset)
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
    snapshot = newest_snapshot(disk, log.directory, disk.list_directory(log.directory), log.log_end_offset)
    start, producers = snapshot if snapshot is not None else (0, ProducerState())
    segments = log.segments
    replay(producers, segments.all()[segments.number_of(start) :], start)
    return producers


def close_cleanly(log: Log) -> None:
    """Make everything durable and leave the files as a stopped broker leaves them. Slow; raises OSError.

    After it the recovery point is the log's end. Nothing may use the log any more, slices aside.
    """
    disk = log.home.disk
    active = log.segments.active
    if log.log_end_offset > log.recovery_point or log.segments.names_changed or active.needs_trim:
        active.load(log.config.index_interval_bytes)
        active.add_last_time()
        active.trim_indexes()
        for handle in _unsynced(log, with_active=True, with_active_indexes=True):
            handle.reopen().sync()
    size = active.file().size()
    if size != active.size:
        raise OSError(f"{active.handle.path} has {size} bytes, {active.size} are the log's")
    snapshot = f"{log.directory}/{file_name(log.log_end_offset, SNAPSHOT)}"
    if log.log_end_offset != log.trusted_end or not disk.exists(snapshot):
        write_snapshot(disk, log.directory, log.log_end_offset, log.producers, sync=True)
        log.segments.names_changed = True
    if log.epochs.changed:
        write_epochs(disk, log.directory, log.epochs.entries)
        log.epochs.saved()
    if log.topic_id_changed:
        sync_topic_id(disk, log.directory)
    if log.segments.names_changed or log.is_new:
        disk.sync_directory(log.directory)
    log.recovery_point = log.log_end_offset
    log.abandon()


def _unsynced(log: Log, *, with_active: bool, with_active_indexes: bool = False) -> list[Handle]:
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
