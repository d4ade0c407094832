"""Closing logs so that another broker, Apache Kafka included, trusts their directories without reading them.

The order is what makes it true: records, last time entries, trimmed indexes and the snapshot are on the disk before
what the log directory writes, and its marker comes last. Between two steps of one log many logs are forced to the disk
together: a stop of ten thousand partitions would take minutes otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sordini.storage.aborted_transactions import close_index
from sordini.storage.checkpoints import epochs_text, sync_file, sync_topic_id, write_beside
from sordini.storage.disk import Disk
from sordini.storage.flushing import unsynced
from sordini.storage.names import LEADER_EPOCHS, SNAPSHOT, file_name
from sordini.storage.open_files import Handle
from sordini.storage.producer_snapshots import write_snapshot

if TYPE_CHECKING:
    from sordini.storage.log import Log

LOGS_AT_ONCE = 64
"""How many logs are closed side by side; each pins some files."""

Syncs = list[Callable[[], None]]


def close_cleanly(disk: Disk, logs: Sequence[Log]) -> None:
    """Make everything durable and leave the files as a stopped broker leaves them. Slow; raises OSError.

    After it each recovery point is its log's end. Nothing may use the logs any more, slices aside.
    """
    for first in range(0, len(logs), LOGS_AT_ONCE):
        closing = [_closing(log) for log in logs[first : first + LOGS_AT_ONCE]]
        while closing:
            steps = [(log, next(log, None)) for log in closing]
            disk.together([sync for _, syncs in steps for sync in syncs or ()])
            closing = [log for log, syncs in steps if syncs is not None]


def _closing(log: Log) -> Iterator[Syncs]:
    """The steps of closing one log: what has to be forced to the disk before the next is taken."""
    disk = log.home.disk
    is_untouched = _finish_indexes(log)
    size = log.segments.active.file().size()
    if size != log.segments.active.size:
        raise OSError(f"{log.segments.active.handle.path} has {size} bytes, {log.segments.active.size} are the log's")
    pinned: list[Handle] = []
    try:
        syncs: Syncs = []
        if not is_untouched:
            for handle in unsynced(log, with_active=True, with_active_indexes=True):
                syncs.append(handle.pin().sync)
                pinned.append(handle)
        snapshot = f"{log.directory}/{file_name(log.log_end_offset, SNAPSHOT)}"
        if log.log_end_offset != log.trusted_end or log.cuts or not disk.exists(snapshot):
            write_snapshot(disk, log.directory, log.log_end_offset, log.producers)
            syncs.append(partial(sync_file, disk, snapshot))
            log.segments.names_changed = True
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
    if epochs is not None or log.segments.names_changed or log.is_new:
        yield [partial(disk.sync_directory, log.directory)]
    log.recovery_point = log.log_end_offset
    log.abandon()


def _finish_indexes(log: Log) -> bool:
    """Give the indexes their last entries and take their padding away; whether there was nothing to do."""
    active = log.segments.active
    close_index(log, active)
    log.home.reservations.give_back(log.topic_partition)
    for segment in log.segments.all():
        # The marker vouches for every index, and Apache Kafka deletes a segment whose padding it takes for entries.
        if segment.may_be_padded(log.config.segment_index_bytes):
            segment.load(log.config.index_interval_bytes)
    # A flush moves the recovery point and leaves the active segment's indexes as they are.
    is_untouched = log.log_end_offset == log.trusted_end and not log.cuts
    if is_untouched and not log.segments.names_changed and not active.needs_trim:
        return True
    active.load(log.config.index_interval_bytes)
    active.add_last_time()
    active.trim_indexes()
    return False
