"""Flushing a log: what was appended is synced in a thread, and then the recovery point moves.

When a flush is due: after an append that reaches `flush.messages` (`LogState.needs_flush`, waited for by
`replication/acks.py`), and by the periodic check of `log_jobs.py` for `flush.ms` and for closed segments.
"""

from __future__ import annotations

from sordini.storage.checkpoints import sync_topic_id, write_epochs
from sordini.storage.directory_failure import NO_DESCRIPTOR, is_directory_failure
from sordini.storage.disk import Disk, File
from sordini.storage.log_state import LogState, UnsyncedMetadata
from sordini.storage.open_files import Handle


async def flush(log: LogState, *, rolled_only: bool, only_if_due: bool = False) -> None:
    """Sync what was appended before the call, or only what closed segments hold, and move the recovery point.

    Raises StorageError, and BrokerError when no file can be opened. A truncation meanwhile leaves the recovery point
    where the truncation put it.
    """
    # One at a time: a running flush has taken the log's unsynced metadata, and may still fail.
    target, truncations = log.log_end_offset, log.truncations
    async with log.segments.flushing:
        if only_if_due and (not log.needs_flush or (log.recovery_point >= target and log.truncations == truncations)):
            return  # An earlier flush has covered these records.
        await _flush(log, rolled_only=rolled_only)


async def _flush(log: LogState, *, rolled_only: bool) -> None:
    log_dir = log.log_dir
    log_dir.ensure_online()
    active = log.segments.active
    up_to = active.base if rolled_only else log.log_end_offset
    if up_to <= log.recovery_point and not log.epochs.changed:
        return
    pinned = _pinned(log, unsynced_files(log, with_active=not rolled_only))
    truncations = log.truncations
    metadata = log.take_unsynced()

    def sync() -> bool:
        for _, file in pinned:
            file.sync()
        # After a deletion another log may have the directory's name.
        return log.is_closed or _sync_metadata(log, metadata)

    done = False
    try:
        done = await log_dir.disk.offload(sync)
    except OSError as error:
        # A deleted log has nothing left to promise.
        if log.is_closed:
            return
        # A lack of descriptors says nothing about the bytes; a failed sync may have dropped them.
        raise (log_dir.classify(error) if error.errno in NO_DESCRIPTOR else log_dir.take_offline(error)) from error
    finally:
        for handle, _ in pinned:
            handle.unpin()
        if not done:
            # Failed, cancelled, or no space for the epochs: the next flush tries again.
            log.put_back(metadata)
    if not rolled_only and log.segments.active is not active:
        up_to = active.base  # Rolled meanwhile: its indexes were not among the files.
    # Without space for the epochs the point stays: recovery has to read them in the batches.
    if done and log.truncations == truncations:
        log.flushed(up_to)


def _sync_metadata(log: LogState, metadata: UnsyncedMetadata) -> bool:
    """In a thread: make names, topic id and epochs durable; False when there is no space for the epochs."""
    disk = log.log_dir.disk
    if metadata.topic_id_changed:
        sync_topic_id(disk, log.directory)
    saved = metadata.epochs is None or _save_epochs(disk, log.directory, metadata.epochs)
    if metadata.names_changed:
        disk.sync_directory(log.directory)
    if metadata.is_new:
        disk.sync_directory(log.log_dir.path)
    return saved


def _save_epochs(disk: Disk, directory: str, epochs: list[tuple[int, int]]) -> bool:
    """Write the leader epochs; False when there is no space."""
    try:
        write_epochs(disk, directory, epochs)
    except OSError as error:
        if is_directory_failure(error):
            raise
        return False
    return True


def _pinned(log: LogState, handles: list[Handle]) -> list[tuple[Handle, File]]:
    pinned: list[tuple[Handle, File]] = []
    try:
        pinned.extend((handle, handle.pin()) for handle in handles)
    except OSError as error:
        for handle, _ in pinned:
            handle.unpin()
        raise log.log_dir.classify(error) from error
    return pinned


def unsynced_files(log: LogState, *, with_active: bool, with_active_indexes: bool = False) -> list[Handle]:
    """The files that may hold unsynced bytes. Recovery rebuilds the active segment's indexes, so a flush leaves them
    out; a clean shutdown does not.
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
