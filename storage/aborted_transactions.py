"""Which transactions were aborted in a stretch of a log, for readers of committed records.

Apache Kafka believes a missing `.txnindex` to mean that nothing was aborted, and then shows aborted records. Here a
segment's index is looked at once, when it is first asked: one that is torn or that cannot be of this segment is made
anew from the log, and so is one that is missing in a log that holds transactions. So that this is not paid for at
every start, segments of such a log that hold no abort are closed with an empty index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.storage.producer_replay import replay
from sordini.storage.producer_snapshots import newest_snapshot, snapshot_offsets
from sordini.storage.producer_state import AbortedTransaction, ProducerState
from sordini.storage.segment import Segment

if TYPE_CHECKING:
    from sordini.storage.log import Log


def aborted_transactions(log: Log, start: int, upper: int) -> list[AbortedTransaction]:
    """Transactions aborted that have records between `start` and `upper`, in the order of their markers.

    Raises OSError.
    """
    found = []
    segments = log.segments.all()
    for number in range(log.segments.number_of(start), len(segments)):
        segment = segments[number]
        transactions = segment.transactions
        if not transactions.is_checked:
            check(log, segment, segments[number + 1].base if number + 1 < len(segments) else log.log_end_offset)
        for aborted in transactions.entries():
            if aborted.last_offset >= start and aborted.first_offset < upper:
                found.append(aborted)
            if aborted.last_stable_offset >= upper:
                return found
    return found


def close_index(log: Log, segment: Segment) -> None:
    """Give a segment that is closed an index, if it has none and its log holds transactions. Raises OSError."""
    transactions = segment.transactions
    if transactions.is_checked and not transactions.exists and log.producers.has_transactions:
        transactions.create()
        log.segments.names_changed = True


def check(log: Log, segment: Segment, end_offset: int) -> bool:
    """Look at a segment's index; whether it was made anew. Raises OSError."""
    transactions = segment.transactions
    transactions.is_checked = True
    if transactions.exists:
        is_wrong = not transactions.is_plausible(segment.base, end_offset)
    else:
        is_wrong = segment.size > 0 and _holds_transactions(log)
    if is_wrong:
        _rebuild(log, segment)
    return is_wrong


def _holds_transactions(log: Log) -> bool:
    return log.producers.has_transactions or any(segment.transactions.exists for segment in log.segments.all())


def _rebuild(log: Log, segment: Segment) -> None:
    """Read a segment's aborts from its markers; where their transactions began is in the snapshot before it."""
    disk, segments = log.home.disk, log.segments.all()
    snapshots = snapshot_offsets(disk.list_directory(log.directory))
    snapshot = newest_snapshot(disk, log.directory, snapshots, segment.base)
    start, producers = snapshot if snapshot is not None else (segments[0].base, ProducerState())
    segment.transactions.create()
    segment.transactions.clear()
    upto = [other for other in segments[log.segments.number_of(start) :] if other.base <= segment.base]
    replay(producers, upto, start, index_aborts_from=segment.base)
    # Nothing else would sync a file of a closed segment below the recovery point.
    segment.transactions.handle.reopen().sync()
    log.segments.names_changed = True
