"""What an append does besides the write: duplicates, producers' state, index entries.

The write itself, and when a segment is rolled for it, is `LogState.append_bytes` (log_state.py). Functions on a log's
state; `Log.append` calls `note_producers` and `index_batches` only for batches that need them.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import NO_TIMESTAMP, BatchHeader
from sordini.storage import aborted_transactions, producer_replay
from sordini.storage.log_state import LogState
from sordini.storage.producer_state import SentBatch
from sordini.storage.segment import Segment
from sordini.system.named_tuple import NamedTuple

OFFSETS_TOPIC: Final = "__consumer_offsets"


class LogAppendInfo(NamedTuple):
    """Where records are in the log after an append. For a duplicate: where they already were."""

    base_offset: int
    end_offset: int
    append_time_ms: int
    """-1 where the topic keeps the producers' own times."""
    log_start_offset: int
    duplicate: bool


def find_duplicate(log: LogState, header: BatchHeader, now_ms: int) -> SentBatch | None:
    """The batch in the log that this one repeats.

    Raises BrokerError for a producer that is fenced, out of order, or beyond the bound.
    """
    if header.is_control or header.base_sequence < 0:
        return None
    producers = log.producers
    if header.is_transactional and log.topic_partition.topic == OFFSETS_TOPIC:
        # The group coordinator wrote it, with sequence 0 as in all its batches: only its epoch is checked.
        producers.check_epoch(header.producer_id, header.producer_epoch)
        _check_room(log, header.producer_id, now_ms)
        return None
    sent = producers.check(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
    if sent is None:
        producers.check_transaction(header.producer_id, is_transactional=header.is_transactional)
        _check_room(log, header.producer_id, now_ms)
    return sent


def _check_room(log: LogState, producer_id: int, now_ms: int) -> None:
    """Make room for a producer that is new here; raises BrokerError KAFKA_STORAGE_ERROR where there is none."""
    producers = log.producers
    if len(producers) >= log.config.producers_max and not producers.knows(producer_id):
        producers.mark(now_ms, log.log_end_offset)
        producers.make_room(now_ms, log.config.producers_max)


def duplicate_info(log: LogState, sent: SentBatch) -> LogAppendInfo:
    """The result of the first append of a repeated batch."""
    append_time_ms = sent.timestamp if log.config.log_append_time else NO_TIMESTAMP
    return LogAppendInfo(sent.first_offset, sent.last_offset + 1, append_time_ms, log.log_start_offset, True)


def too_large(log: LogState, size: int) -> BrokerError:
    """The error for `size` bytes that are more than a segment holds."""
    return BrokerError(
        ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes are more than a segment of {log.config.segment_bytes}"
    )


def note_producers(
    log: LogState, segment: Segment, buffer: memoryview, batches: list[tuple[int, BatchHeader]], base: int
) -> None:
    """Fold batches appended from offset `base` on into the producers' state; raises StorageError."""
    try:
        aborted = producer_replay.apply_appended(log.producers, buffer, batches, base)
        if (
            aborted
            and not segment.transactions.is_checked
            and aborted_transactions.check_index(log.segments, log.producers, segment, log.log_end_offset)
        ):
            return  # The index was rebuilt, these batches included.
        for transaction in aborted:
            log.segments.add_aborted(segment, transaction)
    except OSError as error:
        # Without its entry an aborted transaction would be returned, and its marker is in the log already.
        raise log.log_dir.take_offline(error) from error


def index_batches(
    log: LogState, segment: Segment, batches: list[tuple[int, BatchHeader]], base: int, start: int
) -> None:
    """Index batches that were written from offset `base` and position `start` on; raises StorageError."""
    for position, header in batches:
        last_offset = base + header.last_offset_delta
        index_batch(log, segment, start + position, header, last_offset)
        base = last_offset + 1


def index_batch(log: LogState, segment: Segment, position: int, header: BatchHeader, last_offset: int) -> None:
    """Index one batch that was written at `position`; raises StorageError.

    An entry that the disk has no space for is left out: a sparse index may be sparser.
    """
    config = log.config
    try:
        segment.index_batch(
            position,
            header.size,
            last_offset,
            header.max_timestamp,
            config.index_interval_bytes,
            config.segment_index_bytes,
        )
    except OSError as error:
        segment.unindexed_bytes += header.size
        if log.log_dir.fails_directory(error):
            raise log.log_dir.take_offline(error) from error
