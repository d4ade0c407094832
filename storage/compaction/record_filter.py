"""The second walk's judgement: what becomes of each batch below the offset that the map reached.

a record      stays when it is its key's newest. One without a key goes: a compacted log keeps by key
a tombstone   stays until the batch's delete horizon (KIP-534): the first cleaning that finds the batch sets it, so
              that every reader has `delete.retention.ms` to see the deletion; in the old formats until the segment
              is so much older than the last one that was cleaned before
aborted data  goes at once
a marker      stays while a batch of its transaction does, then gets a delete horizon as a tombstone does
a batch       that is empty goes, unless it holds the last sequence of a live producer, the epoch of one that has
              nothing else in the log, or the last offset of what is cleaned; then its header stays
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress as picked
from operator import attrgetter, not_
from typing import Any, NamedTuple

from sordini.protocol.records.batch import CURRENT_MAGIC, INT32_MAX, BatchHeader, read_header
from sordini.protocol.records.batch_filter import (
    batch_with_some_records,
    batch_without_records,
    delete_horizon_ms,
    expand,
    read_expanded,
)
from sordini.protocol.records.legacy import read_any, write_messages
from sordini.storage.compaction.cleaned_transactions import Transactions
from sordini.storage.compaction.cleaner_stats import Tally
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.offset_map_builder import first_dirty_offset
from sordini.storage.compaction.task import CleaningTask, SegmentSpan
from sordini.storage.disk import Buffer
from sordini.storage.producer_state import AbortedTransaction

_key_of = attrgetter("key")
_value_of = attrgetter("value")


class Kept(NamedTuple):
    """What goes into the new segment, and what its indexes need to know."""

    data: Buffer
    last_offset: int
    max_timestamp: int


class Sieve:
    """One cleaning's judge; batches come in the order of the log."""

    def __init__(
        self, task: CleaningTask, cleaned_to: int, offsets: OffsetMap, transactions: Transactions, tally: Tally
    ) -> None:
        self.aborted: list[AbortedTransaction] = []
        """Of the markers since the list was last emptied: those that a reader still has to be told of."""
        self._now_ms = task.now_ms
        self._horizon_ms = task.now_ms + task.delete_retention_ms
        self._cleaned_to = cleaned_to
        self._first_dirty = first_dirty_offset(task)
        self._producers = {producer_id: (epoch, last) for producer_id, epoch, last in task.producers}
        self._offsets = offsets
        self._transactions = transactions
        self._tally = tally
        cleaned = [span.modified_ms for span in task.segments if span.base < self._first_dirty]
        self._old_horizon_ms = cleaned[-1] - task.delete_retention_ms if cleaned else 0
        self._keeps_old_tombstones = True
        self._room = 0

    def start_group(self, segments: Sequence[SegmentSpan]) -> None:
        """A new segment is begun in place of these: what it may grow beyond them, which delete horizons make it."""
        self._room = INT32_MAX - sum(span.size for span in segments)

    def start_segment(self, span: SegmentSpan) -> None:
        """The next batches are of this segment."""
        self._keeps_old_tombstones = span.modified_ms > self._old_horizon_ms

    def sift(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        """What stays of a batch, `batch` itself if all of it does; None when nothing does. Raises BrokerError."""
        if header.last_offset >= self._cleaned_to:
            return Kept(batch, header.last_offset, header.max_timestamp)
        if header.magic != CURRENT_MAGIC:
            kept = self._sift_old(header, batch)
        elif header.is_control:
            kept = self._sift_marker(header, batch)
        else:
            kept = self._sift_data(header, batch)
        if kept is not None:
            growth = len(kept.data) - len(batch)
            if growth > self._room:
                # Positions in the file would not fit the index. It may stay as it is till another cleaning.
                return Kept(batch, header.last_offset, header.max_timestamp)
            self._room -= growth
        return kept

    def _sift_data(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        count = header.record_count
        last_offset = header.last_offset
        self._tally.records_read += count
        if count == 0 or (header.is_transactional and self._transactions.is_aborted(header)):
            return self._emptied(header, batch)
        body = b""
        horizon_ms = None
        if last_offset >= self._first_dirty:
            keep = self._offsets.staying(last_offset, count)
            has_tombstones = last_offset in self._offsets.tombstoned
            if has_tombstones:
                body = expand(batch, header)
                values = list(map(_value_of, read_expanded(body, header)))
        else:
            body = expand(batch, header)
            records = read_expanded(body, header)
            keep = self._without_outdated(list(map(_key_of, records)))
            values = list(map(_value_of, records))
            has_tombstones = None in values
        if has_tombstones:
            keep, horizon_ms = self._without_tombstones(header, keep, values)
        kept = keep.count(1)
        self._tally.records_kept += kept
        if kept == 0:
            return self._emptied(header, batch)
        if kept == count and horizon_ms is None:
            return Kept(batch, last_offset, header.max_timestamp)
        return _kept(batch_with_some_records(header, body or expand(batch, header), keep, horizon_ms))

    def _without_outdated(self, keys: list[Any]) -> bytearray:
        """1 for each key of which the map knows no newer record, 0 for the others and for one that is None."""
        keyless = keys.count(None)
        if keyless:
            self._tally.keyless_dropped += keyless
            named = self._offsets.are_outdated([key or b"" for key in keys])
            return bytearray(key is not None and not old for key, old in zip(keys, named, strict=True))
        return bytearray(map(not_, self._offsets.are_outdated(keys)))

    def _without_tombstones(
        self, header: BatchHeader, keep: bytearray, values: list[Any]
    ) -> tuple[bytearray, int | None]:
        """Drop tombstones whose time has come, or else say from when on those that stay may go, if nothing did yet."""
        horizon_ms = delete_horizon_ms(header)
        staying = list(picked(values, keep)).count(None)
        if horizon_ms is None:
            return keep, self._horizon_ms if staying else None
        if horizon_ms > self._now_ms:
            return keep, None
        self._tally.tombstones_dropped += staying
        return bytearray(stays and value is not None for stays, value in zip(keep, values, strict=True)), None

    def _sift_marker(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        self._tally.records_read += header.record_count
        has_outlived, aborted = self._transactions.end(header, batch)
        if aborted is not None:
            self.aborted.append(aborted)
        horizon_ms = delete_horizon_ms(header)
        if header.record_count == 0 or (has_outlived and horizon_ms is not None and horizon_ms <= self._now_ms):
            self._tally.markers_dropped += header.record_count
            return self._emptied(header, batch)
        self._tally.records_kept += header.record_count
        if has_outlived and horizon_ms is None:
            everything = b"\1" * header.record_count
            return _kept(batch_with_some_records(header, expand(batch, header), everything, self._horizon_ms))
        return Kept(batch, header.last_offset, header.max_timestamp)

    def _emptied(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        """What stays of a batch of which no record does."""
        if not self._must_stay(header):
            return None
        data = batch if header.record_count == 0 else batch_without_records(header)
        return Kept(data, header.last_offset, header.max_timestamp)

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.next_offset == self._cleaned_to:
            return True
        known = self._producers.get(header.producer_id)
        if known is None or header.producer_id < 0:
            return False
        epoch, last_offset = known
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _sift_old(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        """A message of format 0 or 1, or a wrapper: it has no header that could stay without messages."""
        records = read_any(batch, header)
        if header.last_offset >= self._first_dirty:
            keep = self._offsets.staying(header.last_offset, len(records))
        else:
            keep = self._without_outdated([record.key for record in records])
        kept = list(picked(records, keep))
        if not self._keeps_old_tombstones:
            with_value = [record for record in kept if record.value is not None]
            self._tally.tombstones_dropped += len(kept) - len(with_value)
            kept = with_value
        self._tally.records_read += len(records)
        self._tally.records_kept += len(kept)
        if len(kept) == len(records) or (not kept and header.next_offset == self._cleaned_to):
            return Kept(batch, header.last_offset, header.max_timestamp)
        if not kept:
            return None
        data = write_messages(kept, header.magic, codec=header.codec, log_append_time=header.is_log_append_time)
        return Kept(data, kept[-1].offset, max(record.timestamp for record in kept))


def _kept(batch: bytearray) -> Kept:
    header = read_header(batch)
    return Kept(batch, header.last_offset, header.max_timestamp)
