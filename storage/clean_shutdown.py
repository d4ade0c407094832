"""Closing logs so that the next broker, Apache Kafka included, trusts their directories without reading them.

The order makes that safe: records, last time entries, trimmed indexes and the snapshot are on the disk before the log
directory writes its checkpoints, and the clean shutdown marker comes last. The logs take each step together, with
concurrent syncs: one after the other, ten thousand partitions would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sordini.storage.aborted_transactions import complete_index
from sordini.storage.checkpoints import epochs_text, sync_file, sync_topic_id, write_beside
from sordini.storage.disk import Disk
from sordini.storage.flushing import unsynced_files
from sordini.storage.log_state import LogState
from sordini.storage.names import LEADER_EPOCHS, SNAPSHOT, file_name
from sordini.storage.open_files import Handle
from sordini.storage.producer_snapshots import write_snapshot

LOGS_AT_ONCE = 64
"""How many logs are closed concurrently; each pins some files."""

Syncs = list[Callable[[], None]]


def close_logs_cleanly(disk: Disk, logs: Sequence[LogState]) -> None:
    """Make everything durable and close the logs. Slow; raises OSError.

    Each recovery point is then the log end offset. Only slices may be used afterwards.
    """
    for first in range(0, len(logs), LOGS_AT_ONCE):
        closing = [_closing(log) for log in logs[first : first + LOGS_AT_ONCE]]
        while closing:
            steps = [(log, next(log, None)) for log in closing]
            disk.together([sync for _, syncs in steps for sync in syncs or ()])
            closing = [log for log, syncs in steps if syncs is not None]


def _closing(log: LogState) -> Iterator[Syncs]:
    """The steps of closing one log; each yields the syncs that have to end before the next step."""
    disk = log.log_dir.disk
    is_untouched = _finish_indexes(log)
    size = log.segments.active.file().size()
    if size != log.segments.active.size:
        raise OSError(f"{log.segments.active.handle.path} has {size} bytes, {log.segments.active.size} are the log's")
    names_changed = log.segments.names_changed or log.is_new
    pinned: list[Handle] = []
    try:
        syncs: Syncs = []
        if not is_untouched:
            for handle in unsynced_files(log, with_active=True, with_active_indexes=True):
                syncs.append(handle.pin().sync)
                pinned.append(handle)
        snapshot = f"{log.directory}/{file_name(log.log_end_offset, SNAPSHOT)}"
        if log.log_end_offset != log.trusted_end or log.truncations or not disk.exists(snapshot):
            write_snapshot(disk, log.directory, log.log_end_offset, log.producers)
            syncs.append(partial(sync_file, disk, snapshot))
            names_changed = True
        epochs = None
        if log.epochs.changed:
            epochs = write_beside(disk, log.directory, LEADER_EPOCHS, epochs_text(log.epochs.entries))
            syncs.append(partial(sync_file, disk, epochs))
        if log.topic_id_changed:
            syncs.append(partial(sync_topic_id, disk, log.directory))
        yield syncs
    finally:
        for handle in pinned:
            handle.unpin()
    if epochs is not None:
        disk.rename(epochs, f"{log.directory}/{LEADER_EPOCHS}")
        log.epochs.saved()
    if epochs is not None or names_changed:
        yield [partial(disk.sync_directory, log.directory)]
    log.closed_cleanly()


def _finish_indexes(log: LogState) -> bool:
    """Add the last entries to the indexes and trim them; whether there was nothing to do."""
    active = log.segments.active
    complete_index(log.segments, log.producers, active)
    log.log_dir.reservations.release(log.topic_partition)
    for segment in log.segments.all():
        # The marker covers every index, and Apache Kafka deletes a segment whose index padding it takes for entries.
        if segment.may_be_padded(log.config.segment_index_bytes):
            segment.load(log.config.index_interval_bytes)
    # A flush moves the recovery point without syncing the active segment's indexes.
    is_untouched = log.log_end_offset == log.trusted_end and not log.truncations
    if is_untouched and not log.segments.names_changed and not active.needs_trim:
        return True
    active.load(log.config.index_interval_bytes)
    active.add_last_time()
    active.trim_indexes()
    return False
