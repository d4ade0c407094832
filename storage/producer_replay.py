"""Folding batches of the log into the producers' state, after an append or a restart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import BatchHeader, read_records
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.control import ABORT, COMMIT, marker_in, read_marker
from sordini.storage import batch_scan
from sordini.storage.producer_state import AbortedTransaction, ProducerState, SentBatch, sequence_after
from sordini.storage.segment import Segment

REFILL_RECORDS = 1024
MARKER_BYTES_MAX = 4096
"""The bound on a decompressed control batch: a marker has six bytes."""
REFILL_BYTES = 256 * 1024


def apply_data(producers: ProducerState, header: BatchHeader, base_offset: int) -> None:
    """Fold a batch of records at `base_offset` into the state; the header's own base offset may be the producer's."""
    if header.producer_id < 0 or header.base_sequence < 0:
        return
    sent = _sent(header, base_offset)
    producers.apply(header.producer_id, header.producer_epoch, sent, is_transactional=header.is_transactional)


def _sent(header: BatchHeader, base_offset: int) -> SentBatch:
    delta = header.last_offset_delta
    return SentBatch(
        header.base_sequence,
        sequence_after(header.base_sequence, delta),
        base_offset,
        base_offset + delta,
        header.max_timestamp,
    )


def apply_control(
    producers: ProducerState, header: BatchHeader, base_offset: int, batch: memoryview | bytes
) -> AbortedTransaction | None:
    """Fold a control batch into the state; the transaction that it aborted, if any."""
    if header.producer_id < 0:
        return None
    marker = marker_in(batch) if header.codec == NO_CODEC and header.record_count == 1 else None
    if marker is None:
        try:
            marker = read_marker(next(read_records(batch, header, expanded_bytes_max=MARKER_BYTES_MAX)))
        except (BrokerError, StopIteration):
            return None  # An unreadable record says nothing about producers.
    if marker.kind not in (ABORT, COMMIT):
        return None
    return producers.apply_marker(
        header.producer_id,
        header.producer_epoch,
        base_offset,
        header.max_timestamp,
        marker.coordinator_epoch,
        commit=marker.kind == COMMIT,
    )


def apply_appended(
    producers: ProducerState, buffer: memoryview, batches: list[tuple[int, BatchHeader]], base_offset: int
) -> list[AbortedTransaction]:
    """Fold batches that were appended from `base_offset` on; the transactions that they aborted."""
    aborted = []
    for position, header in batches:
        if header.is_control:
            batch = buffer[position : position + header.size]
            transaction = apply_control(producers, header, base_offset, batch)
            if transaction is not None:
                aborted.append(transaction)
        else:
            apply_data(producers, header, base_offset)
        base_offset += header.last_offset_delta + 1
    return aborted


def refill_windows(producers: ProducerState, segments: Sequence[Segment], interval_bytes: int) -> None:
    """Restore each producer's window of last batches from the end of the log: a snapshot has the last batch only.

    Without them a batch that is resent after a restart would not be recognised as a duplicate, unless it was the last
    one; Apache Kafka has that gap. Bounded, so a window that reaches further back stays short. Raises OSError.
    """
    epochs = producers.known()
    if not epochs:
        return
    found: dict[int, list[SentBatch]] = {}
    records, size = REFILL_RECORDS, REFILL_BYTES
    spans: list[tuple[Segment, int]] = []
    for segment in reversed(segments):
        position = _near_end(segment, records, size, interval_bytes)
        spans.append((segment, position))
        size -= segment.size - position
        if position or size <= 0:
            break
    for segment, position in reversed(spans):
        for _, header in batch_scan.headers(segment.handle, position, segment.size):
            if header.base_sequence < 0 or header.producer_epoch != epochs.get(header.producer_id):
                continue
            found.setdefault(header.producer_id, []).append(_sent(header, header.base_offset))
    for producer_id, batches in found.items():
        producers.refill(producer_id, batches)


def _near_end(segment: Segment, records: int, size: int, interval_bytes: int) -> int:
    """The position of a batch at most `records` and `size` bytes before the segment's end."""
    if segment.size <= size:
        return 0
    segment.load(interval_bytes)
    while records:
        position = segment.index.lookup(max(segment.base, segment.index.last_offset - records))
        if segment.size - position <= size:
            return position
        records //= 4
    return segment.index.last_position


def replay(
    producers: ProducerState, segments: Iterable[Segment], start: int, *, index_aborts_from: int | None = None
) -> None:
    """Fold everything from offset `start` on; aborts in segments whose base is >= `index_aborts_from` are indexed.

    Raises OSError.
    """
    for segment in segments:
        for position, header in batch_scan.headers(segment.handle, 0, segment.size):
            if header.base_offset < start or header.producer_id < 0:
                continue
            if not header.is_control:
                apply_data(producers, header, header.base_offset)
                continue
            aborted = apply_control(
                producers, header, header.base_offset, segment.file().read_at(position, header.size)
            )
            if aborted is not None and index_aborts_from is not None and segment.base >= index_aborts_from:
                segment.transactions.append(aborted)
