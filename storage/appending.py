"""What an append takes besides the write: room in a segment, producers in order, the indexes.

Functions of a log. `Log.append` calls the last two only for batches that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import NO_TIMESTAMP, BatchHeader
from sordini.storage import aborted_transactions, producer_replay
from sordini.storage.log_state import Appended
from sordini.storage.producer_state import SentBatch
from sordini.storage.segment import OFFSETS_MAX, Segment, age_from

if TYPE_CHECKING:
    from sordini.storage.log import Log


def sent_before(log: Log, header: BatchHeader, now_ms: int) -> SentBatch | None:
    """The batch that this one repeats. Raises BrokerError for a producer that is fenced, out of order or too many."""
    if header.is_control or header.base_sequence < 0:
        return None
    producers = log.producers
    sent = producers.check(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
    if sent is None:
        producers.check_transaction(header.producer_id, is_transactional=header.is_transactional)
        if len(producers) >= log.config.producers_max and not producers.knows(header.producer_id):
            producers.mark(now_ms, log.log_end_offset)
            producers.make_room(now_ms, log.config.producers_max)
    return sent


def duplicate(log: Log, sent: SentBatch) -> Appended:
    """The answer that a repeated batch was given when it came first."""
    append_time_ms = sent.timestamp if log.config.log_append_time else NO_TIMESTAMP
    return Appended(sent.first_offset, sent.last_offset + 1, append_time_ms, log.log_start_offset, True)


def check_size(log: Log, size: int) -> None:
    """Raises BrokerError for more than a segment holds."""
    if size > log.config.segment_bytes:
        raise BrokerError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes are more than a segment of {log.config.segment_bytes}"
        )


def room_for(log: Log, size: int, end_offset: int, newest: int, now_ms: int) -> Segment:
    """The segment to write to: the active one, or a new one when it is too full or too old.

    Raises BrokerError for a full disk, and StorageError.
    """
    config = log.config
    active = log.segments.active
    try:
        active.load(config.index_interval_bytes)
        if active.size:
            started = active.first_batch_timestamp()
            age_ms = newest - started if started >= 0 else now_ms - active.creation_ms(log.home.disk)
            if (
                active.size + size > config.segment_bytes
                or age_ms > log.segment_ms
                or end_offset - active.base > OFFSETS_MAX
                or active.is_full
            ):
                log.roll(now_ms)
                active = log.segments.active
    except OSError as error:
        raise log.home.wrong(error) from error
    if active.size == 0:
        active.first_timestamp = age_from(newest)
    return active


def note_producers(
    log: Log, segment: Segment, buffer: memoryview, batches: list[tuple[int, BatchHeader]], base: int
) -> None:
    """Fold what was appended from offset `base` on into the producers' state; raises StorageError."""
    try:
        aborted = producer_replay.apply_appended(log.producers, buffer, batches, base)
        if (
            aborted
            and not segment.transactions.is_checked
            and aborted_transactions.check(log, segment, log.log_end_offset)
        ):
            return  # It was made anew, from what was just appended too.
        for transaction in aborted:
            segment.transactions.append(transaction)
            log.segments.names_changed = True
    except OSError as error:
        # Without its entry an aborted transaction would be shown, and its marker cannot be taken back.
        raise log.home.fail(error) from error


def index_batches(log: Log, segment: Segment, batches: list[tuple[int, BatchHeader]], base: int, start: int) -> None:
    """Note batches that were written from offset `base` and position `start` on; raises StorageError."""
    for position, header in batches:
        last_offset = base + header.last_offset_delta
        index_batch(log, segment, start + position, header, last_offset)
        base = last_offset + 1


def index_batch(log: Log, segment: Segment, position: int, header: BatchHeader, last_offset: int) -> None:
    """Note one batch that was written at `position`; raises StorageError.

    An entry for which there is no room is left out: a sparse index may be sparser.
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
        if log.home.is_condemned_by(error):
            raise log.home.fail(error) from error
