"""The first pass of a cleaning: reads the dirty part and maps each key to its newest record.

Records of aborted transactions are ignored: an older, committed record stays the newest of its key.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError
from sordini.protocol.records import compiled_reader
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader
from sordini.protocol.records.batch_filter import Keys, expand, keys_of, read_keys
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.key_runs import RECORDS_MIN
from sordini.protocol.records.legacy import read_any
from sordini.storage.compaction.cleaned_transactions import CleanedTransactions
from sordini.storage.compaction.cleaner_stats import CleanerStats
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.segment_reading import SegmentSource, batches
from sordini.storage.compaction.task import CleaningTask

_NONE = Keys([], b"")


def first_dirty_offset(task: CleaningTask) -> int:
    """The first offset that no earlier cleaning covered."""
    return max(task.first_dirty_offset, task.log_start_offset)


def build_offset_map(
    source: SegmentSource,
    task: CleaningTask,
    transactions: CleanedTransactions,
    offsets: OffsetMap,
    stats: CleanerStats,
) -> int:
    """Fill the map from the dirty part, up to its bound; the offset up to which the log may now be cleaned.

    That is the border of two batches. Raises DamagedSegment and OSError.
    """
    first_dirty = cleaned_to = first_dirty_offset(task)
    for span in task.segments:
        if span.end_offset <= first_dirty:
            continue
        for position, header, batch in batches(source, span):
            if header.last_offset < first_dirty:
                continue
            if header.next_offset > task.uncleanable_offset:
                return cleaned_to
            try:
                records = _keys(header, batch, transactions)
            except BrokerError as error:
                raise DamagedSegment(source.path(span), position, str(error)) from error
            if records.keys:
                if not offsets.has_room(len(records.keys)):
                    stats.map_fullness = 1.0
                    return cleaned_to
                _note(records, header.last_offset, offsets, stats)
            stats.bytes_mapped += header.size
            cleaned_to = header.next_offset
        # An earlier cleaning removed what followed the last batch.
        cleaned_to = min(span.end_offset, max(cleaned_to, task.uncleanable_offset))
    stats.map_fullness = min(offsets.fullness, 1.0)
    return cleaned_to


def _keys(header: BatchHeader, batch: memoryview, transactions: CleanedTransactions) -> Keys:
    """The keys of a batch's committed records."""
    if header.is_control or header.record_count == 0:
        return _NONE
    if header.is_transactional and transactions.is_aborted(header):
        return _NONE
    if header.magic != CURRENT_MAGIC:
        return keys_of(read_any(batch, header))
    if header.codec == NO_CODEC and header.record_count < RECORDS_MIN:
        records = compiled_reader.read_in_place(batch)
        if records is not None and len(records) == header.record_count:
            return keys_of(records)
    return read_keys(expand(batch, header), header)


def _note(records: Keys, batch: int, offsets: OffsetMap, stats: CleanerStats) -> None:
    keys = records.keys
    offsets.add(keys, batch)
    if records.tombstones:
        offsets.tombstoned.add(batch)
    stats.records_mapped += len(keys)
    stats.keyless_dropped += keys.count(None)
