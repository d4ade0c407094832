"""The oldest record of a log from an offset on, for the age of what a consumer has not read.

What is no record to a consumer is passed over: transaction markers, batches that compaction emptied, and to a reader
of committed records those of aborted transactions. Headers tell that; a batch is opened only where its header does not
say enough, and only within a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget
from sordini.storage import batch_scan
from sordini.storage.log import Log
from sordini.storage.segment import Segment
from sordini.system.named_tuple import NamedTuple

HEADERS_MAX: Final = 100
"""Batches that are passed over before the search ends without an exact answer."""
OPENED_BYTES_MAX: Final = 256 * 1024
OPENED_STEPS_MAX: Final = 2_000
"""About two milliseconds."""
SPREAD_MS: Final = 1_000
"""A batch whose times differ by less is not opened to know which of them is a record's."""
_ANY_TIME: Final = -(2**62)


class OldestRecord(NamedTuple):
    """The record, or where the search ended."""

    offset: int
    timestamp: int
    """Ms; -1 for none. That of its batch's first record where the batch was not opened."""
    is_log_append_time: bool
    is_exact: bool
    """Whether it is known that there is a record at this offset, or at a later one with no other before it."""
    segment: Segment


def oldest_record(log: Log, start: int, end: int, *, committed_only: bool) -> OldestRecord | None:
    """The first record from `start` on and below `end`; None if there is none. Raises StorageError.

    `start` is not below the log start offset.
    """
    log.log_dir.ensure_online()
    try:
        return _search(log, start, end, committed_only=committed_only)
    except OSError as error:
        raise log.log_dir.classify(error) from error


def _search(log: Log, start: int, end: int, *, committed_only: bool) -> OldestRecord | None:
    passed = 0
    for segment, position, header in _batches(log, start):
        if header.base_offset >= end:
            return None
        if header.last_offset < start:
            continue
        if passed >= HEADERS_MAX:
            return OldestRecord(
                header.base_offset, header.base_timestamp, header.is_log_append_time, is_exact=False, segment=segment
            )
        if not _is_passed_over(log, header, committed_only=committed_only):
            found = _in_batch(segment, position, header, start)
            if found is not None:
                return found if found.offset < end else None
        passed += 1
    return None


def _batches(log: Log, start: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    segments = log.segments.all()
    located = log.segments.locate(start, log.config.index_interval_bytes)
    if located is None:
        return
    first, position = located[0], located[1]
    for segment in segments[log.segments.number_of(first.base) :]:
        for at, header in batch_scan.headers(segment.handle, position, segment.size):
            yield segment, at, header
        position = 0


def _is_passed_over(log: Log, header: BatchHeader, *, committed_only: bool) -> bool:
    if header.magic != CURRENT_MAGIC:
        return False
    if header.is_control or header.record_count == 0:
        return True
    if not (committed_only and header.is_transactional):
        return False
    return any(
        aborted.producer_id == header.producer_id
        and aborted.first_offset <= header.base_offset
        and header.last_offset <= aborted.last_offset
        for aborted in log.aborted_transactions(header.base_offset, header.next_offset)
    )


def _in_batch(segment: Segment, position: int, header: BatchHeader, start: int) -> OldestRecord | None:
    """The first record of a batch from `start` on; None where compaction has removed all that were there."""
    is_new = header.magic == CURRENT_MAGIC
    is_dense = is_new and header.record_count == header.last_offset_delta + 1
    set_by_log = header.is_log_append_time
    time = header.max_timestamp if set_by_log else header.base_timestamp
    begins_here = header.base_offset >= start
    if is_dense and (begins_here or set_by_log or header.max_timestamp - header.base_timestamp <= SPREAD_MS):
        return OldestRecord(max(header.base_offset, start), time, set_by_log, is_exact=True, segment=segment)
    unopened = OldestRecord(max(header.base_offset, start), time, set_by_log, is_exact=is_dense, segment=segment)
    if header.size > OPENED_BYTES_MAX:
        return unopened
    data = segment.file().read_at(position, header.size)
    try:
        found = first_at_or_after(data, header, _ANY_TIME, start, WorkBudget(OPENED_STEPS_MAX))
    except BudgetExceeded:
        return unopened
    return None if found is None else OldestRecord(found[1], found[0], set_by_log, is_exact=True, segment=segment)
