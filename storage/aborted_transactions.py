"""Which transactions were aborted in a range of a log, for readers of committed records.

Apache Kafka takes a missing `.txnindex` for "no aborted transactions", and then returns aborted records. Here each
segment's index is checked once, at its first use. An index that is torn, or that cannot be this segment's, is rebuilt
from the log; so is a missing one in a log that holds transactions. To avoid a rebuild at every start, segments of such
a log without aborted transactions are closed with an empty index.
"""

from __future__ import annotations

from sordini.storage.producer_replay import replay
from sordini.storage.producer_snapshots import newest_snapshot, snapshot_offsets
from sordini.storage.producer_state import AbortedTransaction, ProducerState
from sordini.storage.segment import Segment
from sordini.storage.segment_list import SegmentList


def find_aborted(
    segments: SegmentList, producers: ProducerState, log_end_offset: int, start: int, upper: int
) -> list[AbortedTransaction]:
    """Aborted transactions with records between `start` and `upper`, in the order of their markers. Raises OSError."""
    found = []
    every = segments.all()
    for number in range(segments.number_of(start), len(every)):
        segment = every[number]
        transactions = segment.transactions
        if not transactions.is_checked:
            check_index(segments, producers, segment, segments.end_of(number, log_end_offset))
        for aborted in transactions.entries_from(start):
            if aborted.first_offset < upper:
                found.append(aborted)
            if aborted.last_stable_offset >= upper:
                return found
    return found


def complete_index(segments: SegmentList, producers: ProducerState, segment: Segment) -> None:
    """Create an empty index for a segment that is closed, if its log holds transactions. Raises OSError."""
    transactions = segment.transactions
    if transactions.is_checked and not transactions.exists and producers.has_transactions:
        segments.create_transaction_index(segment)


def check_index(segments: SegmentList, producers: ProducerState, segment: Segment, end_offset: int) -> bool:
    """Check a segment's index; whether it was rebuilt. Raises OSError."""
    transactions = segment.transactions
    transactions.is_checked = True
    if transactions.exists:
        is_wrong = not transactions.is_plausible(segment.base, end_offset)
    else:
        is_wrong = segment.size > 0 and _holds_transactions(segments, producers)
    if is_wrong:
        _rebuild(segments, segment)
    return is_wrong


def _holds_transactions(segments: SegmentList, producers: ProducerState) -> bool:
    return producers.has_transactions or any(segment.transactions.exists for segment in segments.all())


def _rebuild(segments: SegmentList, segment: Segment) -> None:
    """Rebuild a segment's index from its markers; the snapshot before it knows where its transactions began."""
    disk, directory, every = segments.log_dir.disk, segments.directory, segments.all()
    snapshots = snapshot_offsets(disk.list_directory(directory))
    snapshot = newest_snapshot(disk, directory, snapshots, segment.base)
    start, producers = snapshot if snapshot is not None else (every[0].base, ProducerState())
    segments.create_transaction_index(segment)
    segment.transactions.clear()
    upto = [other for other in every[segments.number_of(start) :] if other.base <= segment.base]
    replay(producers, upto, start, index_aborts_from=segment.base)
    # No flush syncs a file of a closed segment below the recovery point.
    segment.transactions.handle.reopen().sync()
