"""Bringing producers' state up to date with batches that are in the log, after an append or a restart."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import BatchHeader, read_records
from sordini.storage import batch_scan
from sordini.storage.producer_state import AbortedTransaction, ProducerState, SentBatch, sequence_after
from sordini.storage.segment import Segment

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


def apply_data(producers: ProducerState, header: BatchHeader, base_offset: int) -> None:
    """Fold a batch of records into the state; its header still has the producer's own base offset."""
    if header.producer_id < 0 or header.base_sequence < 0:
        return
    delta = header.last_offset_delta
    sent = SentBatch(
        header.base_sequence,
        sequence_after(header.base_sequence, delta),
        base_offset,
        base_offset + delta,
        header.max_timestamp,
    )
    producers.apply(header.producer_id, header.producer_epoch, sent, is_transactional=header.is_transactional)


def apply_control(
    producers: ProducerState, header: BatchHeader, base_offset: int, batch: memoryview | bytes
) -> AbortedTransaction | None:
    """Fold a control batch into the state; the transaction that it aborted, if any."""
    if header.producer_id < 0:
        return None
    try:
        record = next(read_records(batch, header))
        _, kind = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except (BrokerError, StopIteration, struct.error):
        # Some other control record than a transaction's end: it says nothing about producers.
        return None
    if kind not in (ABORT, COMMIT):
        return None
    return producers.apply_marker(
        header.producer_id,
        header.producer_epoch,
        base_offset,
        header.max_timestamp,
        coordinator_epoch,
        commit=kind == COMMIT,
    )


def apply_appended(
    producers: ProducerState, buffer: memoryview, batches: list[tuple[int, BatchHeader]], base_offset: int
) -> list[AbortedTransaction]:
    """Fold batches that were just appended from `base_offset` on; the transactions that they aborted."""
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
