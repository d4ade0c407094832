"""The second pass of a cleaning: which records are retained, below the offset that the map reached.

a record      is retained when it is its key's newest; one without a key is removed
a tombstone   is retained until the batch's delete horizon (KIP-534): the first cleaning that finds the batch sets it,
              so that every reader has `delete.retention.ms` to see the deletion; in the old formats, until the segment
              is that much older than the last one cleaned before
aborted data  is removed at once
a marker      is retained while a batch of its transaction is, then gets a delete horizon as a tombstone does
a batch       without records is removed, unless it holds the last sequence of a live producer, the epoch of one that
              has nothing else in the log, or the last offset of what is cleaned; then its header is retained
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import gt, not_

from sordini.protocol.records.batch import CURRENT_MAGIC, INT32_MAX, BatchHeader, read_header
from sordini.protocol.records.batch_filter import (
    batch_with_some_records,
    batch_without_records,
    delete_horizon_ms,
    expand,
    read_keys,
)
from sordini.protocol.records.legacy import read_any
from sordini.protocol.records.legacy_writing import write_messages
from sordini.storage.compaction.cleaned_transactions import CleanedTransactions
from sordini.storage.compaction.cleaner_stats import CleanerStats
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.offset_map_builder import first_dirty_offset
from sordini.storage.compaction.task import CleaningTask, SegmentSpan
from sordini.storage.disk import Buffer
from sordini.storage.producer_state import AbortedTransaction
from sordini.system.named_tuple import NamedTuple


class RetainedBatch(NamedTuple):
    """A retained batch, with the fields for the new segment's indexes."""

    data: Buffer
    last_offset: int
    max_timestamp: int


class RecordFilter:
    """The filter of one cleaning; batches come in the order of the log."""

    def __init__(
        self,
        task: CleaningTask,
        cleaned_to: int,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        stats: CleanerStats,
    ) -> None:
        self.aborted: list[AbortedTransaction] = []
        """Aborted transactions with retained batches, of the markers since the list was last emptied."""
        self._now_ms = task.now_ms
        self._horizon_ms = task.now_ms + task.delete_retention_ms
        self._cleaned_to = cleaned_to
        self._first_dirty = first_dirty_offset(task)
        self._producers = {producer_id: (epoch, last) for producer_id, epoch, last in task.producers}
        self._offsets = offsets
        self._transactions = transactions
        self._stats = stats
        cleaned = [span.modified_ms for span in task.segments if span.base < self._first_dirty]
        self._old_horizon_ms = cleaned[-1] - task.delete_retention_ms if cleaned else 0
        self._keeps_old_tombstones = True
        self._growth_max = 0

    def start_group(self, segments: Sequence[SegmentSpan]) -> None:
        """A new segment replaces these: bound its growth, which delete horizons may cause."""
        self._growth_max = INT32_MAX - sum(span.size for span in segments)

    def start_segment(self, span: SegmentSpan) -> None:
        """The next batches are of this segment."""
        self._keeps_old_tombstones = span.modified_ms > self._old_horizon_ms

    def filter_batch(self, header: BatchHeader, batch: memoryview) -> RetainedBatch | None:
        """The retained part of a batch, `batch` itself if that is all of it; None for nothing. Raises BrokerError."""
        if header.last_offset >= self._cleaned_to:
            return RetainedBatch(batch, header.last_offset, header.max_timestamp)
        if header.magic != CURRENT_MAGIC:
            kept = self._filter_old(header, batch)
        elif header.is_control:
            kept = self._filter_marker(header, batch)
        else:
            kept = self._filter_data(header, batch)
        if kept is not None:
            growth = len(kept.data) - len(batch)
            if growth > self._growth_max:
                # Positions in the file would not fit the index: the batch is unchanged until another cleaning.
                return RetainedBatch(batch, header.last_offset, header.max_timestamp)
            self._growth_max -= growth
        return kept

    def _filter_data(self, header: BatchHeader, batch: memoryview) -> RetainedBatch | None:
        count = header.record_count
        last_offset = header.last_offset
        self._stats.records_read += count
        if count == 0 or (header.is_transactional and self._transactions.is_aborted(header)):
            return self._emptied(header, batch)
        body = b""
        horizon_ms = None
        if last_offset >= self._first_dirty:
            keep = self._offsets.staying(last_offset, count)
            has_tombstones = last_offset in self._offsets.tombstoned
            if has_tombstones:
                body = expand(batch, header)
                tombstones = read_keys(body, header).tombstones
        else:
            body = expand(batch, header)
            keys, tombstones = read_keys(body, header)
            keep = self._without_outdated(keys)
            has_tombstones = tombstones != b""
        if has_tombstones:
            keep, horizon_ms = self._without_tombstones(header, keep, tombstones)
        kept = keep.count(1)
        self._stats.records_kept += kept
        if kept == 0:
            return self._emptied(header, batch)
        if kept == count and horizon_ms is None:
            return RetainedBatch(batch, last_offset, header.max_timestamp)
        return _kept(batch_with_some_records(header, body or expand(batch, header), keep, horizon_ms))

    def _without_outdated(self, keys: Sequence[bytes | None]) -> bytearray:
        """1 for each key without a newer record in the map, 0 for the others and for None."""
        named = [key for key in keys if key is not None]
        outdated = self._offsets.are_outdated(named)
        if len(named) == len(keys):
            return bytearray(map(not_, outdated))
        self._stats.keyless_dropped += len(keys) - len(named)
        answers = iter(outdated)
        return bytearray(key is not None and not next(answers) for key in keys)

    def _without_tombstones(
        self, header: BatchHeader, keep: bytearray, tombstones: bytes
    ) -> tuple[bytearray, int | None]:
        """Remove tombstones past their delete horizon; for a batch that has none yet, also the horizon to set."""
        horizon_ms = delete_horizon_ms(header)
        staying = sum(compress(tombstones, keep))
        if horizon_ms is None:
            return keep, self._horizon_ms if staying else None
        if horizon_ms > self._now_ms:
            return keep, None
        self._stats.tombstones_dropped += staying
        return bytearray(map(gt, keep, tombstones)), None

    def _filter_marker(self, header: BatchHeader, batch: memoryview) -> RetainedBatch | None:
        self._stats.records_read += header.record_count
        has_outlived, aborted = self._transactions.end(header, batch)
        if aborted is not None:
            self.aborted.append(aborted)
        horizon_ms = delete_horizon_ms(header)
        if header.record_count == 0 or (has_outlived and horizon_ms is not None and horizon_ms <= self._now_ms):
            self._stats.markers_dropped += header.record_count
            return self._emptied(header, batch)
        self._stats.records_kept += header.record_count
        if has_outlived and horizon_ms is None:
            everything = b"\1" * header.record_count
            return _kept(batch_with_some_records(header, expand(batch, header), everything, self._horizon_ms))
        return RetainedBatch(batch, header.last_offset, header.max_timestamp)

    def _emptied(self, header: BatchHeader, batch: memoryview) -> RetainedBatch | None:
        """The retained part of a batch without retained records."""
        if not self._must_stay(header):
            return None
        data = batch if header.record_count == 0 else batch_without_records(header)
        return RetainedBatch(data, header.last_offset, header.max_timestamp)

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

    def _filter_old(self, header: BatchHeader, batch: memoryview) -> RetainedBatch | None:
        """A message of format 0 or 1, or a wrapper: without messages it has no header to retain."""
        records = read_any(batch, header)
        if header.last_offset >= self._first_dirty:
            keep = self._offsets.staying(header.last_offset, len(records))
        else:
            keep = self._without_outdated([record.key for record in records])
        kept = list(compress(records, keep))
        if not self._keeps_old_tombstones:
            with_value = [record for record in kept if record.value is not None]
            self._stats.tombstones_dropped += len(kept) - len(with_value)
            kept = with_value
        self._stats.records_read += len(records)
        self._stats.records_kept += len(kept)
        if len(kept) == len(records) or (not kept and header.next_offset == self._cleaned_to):
            return RetainedBatch(batch, header.last_offset, header.max_timestamp)
        if not kept:
            return None
        data = write_messages(kept, header.magic, codec=header.codec, log_append_time=header.is_log_append_time)
        return RetainedBatch(data, kept[-1].offset, max(record.timestamp for record in kept))


def _kept(batch: bytearray) -> RetainedBatch:
    header = read_header(batch)
    return RetainedBatch(batch, header.last_offset, header.max_timestamp)
