"""Appending what a leader sent: batches keep the offsets, epochs and bytes that the leader gave them.

`Log.append` assigns offsets; here they may have gaps (of compaction), and one fetch response may hold more than a
segment.
"""

from __future__ import annotations

from collections.abc import Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.storage import appending
from sordini.storage.log_config import LogConfig
from sordini.storage.log_state import LogState
from sordini.storage.segment_roll import OFFSETS_MAX

Batches = list[tuple[int, BatchHeader]]


def append_as_follower(log: LogState, fetched: CheckedBatches, now_ms: int) -> None:
    """Append checked batches to the log: to the page cache.

    Raises BrokerError CORRUPT_MESSAGE when they begin below the log end offset, or for a full disk; StorageError when
    the directory is offline or goes offline by this. A failure in the middle leaves the whole batches before it.
    """
    if log.log_dir.failure is not None or log.is_closed:
        log.ensure_writable()
    batches = fetched.batches
    if batches and batches[0][1].base_offset < log.log_end_offset:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{log.topic_partition} ends at {log.log_end_offset}, the leader sent offset {batches[0][1].base_offset}",
        )
    config = log.config
    runs = (batches,) if len(batches) == 1 else _runs(batches, config.segment_bytes)
    for run in runs:
        _append_run(log, fetched.buffer, run, config, now_ms)


def _runs(batches: Batches, segment_bytes: int) -> Iterator[Batches]:
    """Runs of batches that fit one segment; a batch that is larger than a segment is a run of its own."""
    run: Batches = []
    size = 0
    for position, header in batches:
        if run and (size + header.size > segment_bytes or header.last_offset - run[0][1].base_offset > OFFSETS_MAX):
            yield run
            run, size = [], 0
        run.append((position, header))
        size += header.size
    if run:
        yield run


def _append_run(log: LogState, buffer: memoryview, run: Batches, config: LogConfig, now_ms: int) -> None:
    (begin, first), (last_position, last) = run[0], run[-1]
    end, newest = last_position + last.size, first.max_timestamp
    if len(run) > 1:
        newest = max(header.max_timestamp for _, header in run)
    segment = log.append_bytes(
        buffer[begin:end], end - begin, first.base_offset, last.base_offset + last.last_offset_delta + 1, newest, now_ms
    )
    start = segment.size - end  # Of the buffer's position 0, as if the whole buffer were in the segment.
    for position, header in run:
        if header.partition_leader_epoch != log.epochs.latest or header.magic != CURRENT_MAGIC:
            _note_epoch(log, header)
        last_offset = header.base_offset + header.last_offset_delta
        if segment.unindexed_bytes > config.index_interval_bytes:
            appending.index_batch(log, segment, start + position, header, last_offset)
        else:
            # As `index_batch` without an index entry, inlined: this is the usual append.
            segment.unindexed_bytes += header.size
            if header.max_timestamp > segment.max_timestamp:
                segment.max_timestamp = header.max_timestamp
                segment.max_timestamp_offset = last_offset
        if header.producer_id >= 0:
            appending.note_producers(log, segment, buffer, [(position, header)], header.base_offset)
    log.producers.trim(config.producers_max)


def _note_epoch(log: LogState, header: BatchHeader) -> None:
    if header.magic != CURRENT_MAGIC:
        log.epochs.truncate_from_end(0)  # As on a leader that appends such messages: the epochs would have gaps.
    elif header.partition_leader_epoch not in (log.epochs.latest, -1):
        log.epochs.assign(header.partition_leader_epoch, header.base_offset)
