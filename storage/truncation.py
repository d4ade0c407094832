"""Truncating a log, and everything that depends on its end: segments, epochs, snapshots, producers, checkpoints.

The recovery point is on the disk before the truncation, and the truncation is on the disk before the next append: a
power failure in between cannot bring truncated records back beside those appended later. At which offset a follower
truncates is decided in `replication/follower_truncation.py`.
"""

from __future__ import annotations

from sordini.storage.checkpoints import write_epochs
from sordini.storage.compaction.segment_replacement import withdraw
from sordini.storage.log_state import LogState
from sordini.storage.producer_replay import refill_windows, replay
from sordini.storage.producer_snapshots import newest_snapshot, remove_snapshots, snapshot_offsets
from sordini.storage.producer_state import ProducerState


def truncate_to(log: LogState, offset: int, due_ms: int) -> None:
    """Truncate the log before the batch that holds `offset`. Raises OSError.

    The recovery point is on the disk before: records written at these offsets later must be checked again.
    """
    withdraw(log)
    interval_bytes = log.config.index_interval_bytes
    recovery_point = log.recovery_point
    # A roll moves the point back in memory alone.
    if offset < max(recovery_point, log.log_dir.saved_recovery_point(log.topic_partition)):
        # The log will end where the batch that holds `offset` begins, which may be before it.
        found = log.segments.locate(offset, interval_bytes)
        log.lower_recovery_point(offset if found is None else found[2])
    segment = log.segments.all()[log.segments.number_of(offset)]
    batch = segment.find(offset, interval_bytes)
    if batch is not None and segment.handle.file is not None:
        log.log_dir.before_truncate(segment.handle.file, batch[0])
    end_offset = log.segments.truncate_to(offset, interval_bytes, due_ms)
    if end_offset < log.log_start_offset:
        # The batch that holds the log start began before it: deleted records stay deleted, offsets are not reused.
        end_offset = log.log_start_offset
        log.segments.truncate_fully_and_start_at(end_offset, due_ms)
    _finish(log, end_offset, recovery_point)


def truncate_fully_and_start_at(log: LogState, offset: int, due_ms: int) -> None:
    """Replace all segments by an empty one that begins at `offset`. Raises OSError."""
    withdraw(log)
    log.lower_recovery_point(log.segments.all()[0].base)
    for segment in log.segments.all():
        if segment.handle.file is not None:
            log.log_dir.before_truncate(segment.handle.file, 0)
    log.segments.truncate_fully_and_start_at(offset, due_ms)
    log.truncated_fully(offset)
    _finish(log, offset, offset)


def _finish(log: LogState, end_offset: int, recovery_point: int) -> None:
    """The files end at `end_offset` now: make that durable, and lower everything that depends on it."""
    log.truncated(end_offset, recovery_point)
    # Else a power failure could undo the truncation below what is appended next, and mix the two.
    log.segments.active.file().sync()
    log.log_dir.disk.sync_directory(log.directory)
    if log.epochs.changed:
        write_epochs(log.log_dir.disk, log.directory, log.epochs.entries)
        log.epochs.saved()
    remove_snapshots(log.log_dir.disk, log.directory, above=end_offset)
    log.restore_producers(_producers_at_end(log))
    log.log_dir.on_event("log truncated", partition=str(log.topic_partition), end_offset=end_offset)


def _producers_at_end(log: LogState) -> ProducerState:
    """The producers' state at the log end, from the newest snapshot and the batches after it. Raises OSError."""
    disk = log.log_dir.disk
    offsets = snapshot_offsets(disk.list_directory(log.directory))
    snapshot = newest_snapshot(disk, log.directory, offsets, log.log_end_offset)
    start, producers = snapshot if snapshot is not None else (0, ProducerState())
    segments = log.segments
    replay(producers, segments.all()[segments.number_of(start) :], start)
    refill_windows(producers, segments.all(), log.config.index_interval_bytes)
    return producers
