"""Appending what a leader sent: batches keep the offsets, epochs and bytes that the leader gave them.

Beside `Log.append`, which gives offsets out. A follower's offsets may have gaps (of compaction), and what came in one
answer may be more than one segment holds.
"""

from __future__ import annotations

from collections.abc import Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.storage import appending, flushing
from sordini.storage.log import Log
from sordini.storage.segment import OFFSETS_MAX

Batches = list[tuple[int, BatchHeader]]


def append_fetched(log: Log, fetched: CheckedBatches, now_ms: int) -> None:
    """Write checked batches to the end of the log: to the page cache.

    Raises BrokerError CORRUPT_MESSAGE when they begin below the log's end, or for a full disk; StorageError when the
    directory is offline or goes offline by this. What fails in the middle leaves whole batches before it.
    """
    log.home.check()
    if log.is_closed:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {log.topic_partition} was closed")
    batches = fetched.batches
    if batches and batches[0][1].base_offset < log.log_end_offset:
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{log.topic_partition} ends at {log.log_end_offset}, the leader sent offset {batches[0][1].base_offset}",
        )
    for run in _runs(batches, log.config.segment_bytes):
        _append_run(log, fetched.buffer, run, now_ms)


def _runs(batches: Batches, segment_bytes: int) -> Iterator[Batches]:
    """What may go to one segment together; a batch that is larger than a segment goes alone."""
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


def _append_run(log: Log, buffer: memoryview, run: Batches, now_ms: int) -> None:
    first, last = run[0][1], run[-1][1]
    begin, end = run[0][0], run[-1][0] + last.size
    newest = max(header.max_timestamp for _, header in run)
    segment = appending.room_for(log, end - begin, last.next_offset, newest, now_ms)
    start = segment.size
    flushing.write(log.home, segment, buffer[begin:end], end - begin)
    log.segments.note_recent(first.base_offset, start)
    log.log_end_offset = last.next_offset
    for position, header in run:
        _note_epoch(log, header)
        appending.index_batch(log, segment, start + position - begin, header, header.last_offset)
        if header.producer_id >= 0:
            appending.note_producers(log, segment, buffer, [(position, header)], header.base_offset)
    log.producers.trim(log.config.producers_max)


def _note_epoch(log: Log, header: BatchHeader) -> None:
    if header.magic != CURRENT_MAGIC:
        log.epochs.truncate_from_end(0)  # As when a leader appends such messages: epochs would be learnt with holes.
    elif header.partition_leader_epoch not in (log.epochs.latest, -1):
        log.epochs.assign(header.partition_leader_epoch, header.base_offset)
