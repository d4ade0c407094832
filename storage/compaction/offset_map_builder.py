"""The first walk of a cleaning: over the dirty part, to learn which record of each key is the newest.

Records of aborted transactions do not count: an older record that was committed stays the newest of its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from sordini.protocol.errors import BrokerError
from sordini.protocol.records import compiled_reader
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader
from sordini.protocol.records.batch_filter import expand, read_expanded
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.legacy import read_any
from sordini.storage.compaction.cleaned_transactions import Transactions
from sordini.storage.compaction.cleaner_stats import Tally
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.offset_map import OffsetMap
from sordini.storage.compaction.segment_reading import Source, batches
from sordini.storage.compaction.task import CleaningTask

_key_of = attrgetter("key")
_value_of = attrgetter("value")


def first_dirty_offset(task: CleaningTask) -> int:
    """From where on nothing was cleaned before."""
    return max(task.first_dirty_offset, task.log_start_offset)


def map_dirty(source: Source, task: CleaningTask, transactions: Transactions, offsets: OffsetMap, tally: Tally) -> int:
    """Fill the map from the dirty part, as far as it has room; the offset up to which the log may now be cleaned.

    It ends between two batches. Raises DamagedSegment and OSError.
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
                records = _records(header, batch, transactions)
            except BrokerError as error:
                raise DamagedSegment(source.path(span), position, str(error)) from error
            if records:
                if not offsets.has_room(len(records)):
                    tally.map_fullness = 1.0
                    return cleaned_to
                _note(records, header.last_offset, offsets, tally)
            tally.bytes_mapped += header.size
            cleaned_to = header.next_offset
        # What follows the last batch went in an earlier cleaning.
        cleaned_to = min(span.end_offset, max(cleaned_to, task.uncleanable_offset))
    tally.map_fullness = min(offsets.fullness, 1.0)
    return cleaned_to


def _records(header: BatchHeader, batch: memoryview, transactions: Transactions) -> Sequence[Any]:
    """The records of a batch, if they count; each has `key` and `value`."""
    if header.is_control or header.record_count == 0:
        return []
    if header.is_transactional and transactions.is_aborted(header):
        return []
    if header.magic != CURRENT_MAGIC:
        return read_any(batch, header)
    if header.codec == NO_CODEC:
        records = compiled_reader.read_in_place(batch)
        if records is not None and len(records) == header.record_count:
            return records
    return read_expanded(expand(batch, header), header)


def _note(records: Sequence[Any], batch: int, offsets: OffsetMap, tally: Tally) -> None:
    keys = list(map(_key_of, records))
    offsets.add(keys, batch)
    if None in map(_value_of, records):
        offsets.tombstoned.add(batch)
    tally.records_mapped += len(keys)
    tally.keyless_dropped += keys.count(None) if None in keys else 0
