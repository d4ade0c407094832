"""What a follower does with its log: appends what it fetched, and truncates where the leader's log is another one.

The decisions are in `follower.py` and `follower_truncation.py`. Each function takes the `Follower` (one term of
following) that made the request: in another term, its response changes nothing.
"""

from __future__ import annotations

from sordini.protocol.records.fetch_validation import check_fetched
from sordini.protocol.types import Offset
from sordini.replication.follower import Follower, follower_high_watermark
from sordini.replication.follower_truncation import EpochEnd, FetchStart
from sordini.replication.partition import Partition
from sordini.storage.follower_append import append_as_follower


def append_fetched_records(
    partition: Partition,
    follower: Follower,
    fetch_offset: int,
    records: memoryview,
    high_watermark: int,
    log_start_offset: int,
    now_ms: int,
) -> int:
    """Append the records fetched at `fetch_offset`, and adopt the leader's watermark and log start.

    Returns the bytes appended: 0 for a response to a request of another term, or made at another log end. Before
    the next fetch `log.flush_if_due` is due: the records that it acknowledges must be as durable here as at the
    leader. Raises BrokerError and StorageError.
    """
    log = partition.log
    if follower is not partition.follower or fetch_offset != log.log_end_offset:
        return 0
    known = log.high_watermark
    fetched = check_fetched(records)
    if fetched.batches:
        first = fetched.batches[0][1]
        if first.base_offset < log.log_end_offset < first.next_offset:
            # This log ends (or is empty) inside a batch of the leader's: append that batch as a whole.
            log.truncate_to(first.base_offset, now_ms)
            if log.log_end_offset > first.base_offset:
                log.truncate_fully_and_start_at(first.base_offset, now_ms)
        append_as_follower(log, fetched, now_ms)
        partition.uncommitted.add(log.log_end_offset, len(fetched.buffer))
    if high_watermark != known:
        end = Offset(log.log_end_offset)
        log.high_watermark = follower_high_watermark(Offset(known), Offset(high_watermark), end)
    if log_start_offset > log.log_start_offset:
        log.advance_log_start(min(log_start_offset, log.high_watermark))
    if log.high_watermark != known:
        partition.uncommitted.commit(log.high_watermark)
        if partition.purgatory:
            partition.notify_purgatory()
        else:
            partition.uncommitted.readable_bytes = 0
    return len(fetched.buffer)


def truncate_to_divergence(partition: Partition, follower: Follower, leader_end: EpochEnd, now_ms: int) -> int | None:
    """Truncate the log where it diverges from the leader's; the new log end, or None if nothing was truncated.

    Raises StorageError.
    """
    if follower is not partition.follower:
        return None
    log = partition.log
    offset = follower.truncation_offset(leader_end, log.epochs, Offset(log.log_end_offset), Offset(log.high_watermark))
    is_truncated = log.truncate_to(offset, now_ms)
    partition.uncommitted.truncate(log.log_end_offset)
    return log.log_end_offset if is_truncated else None


def restart_at(partition: Partition, follower: Follower, start: FetchStart, now_ms: int) -> None:
    """Truncate the log so that it continues at an offset that the leader has; raises StorageError."""
    if follower is not partition.follower:
        return
    truncate = partition.log.truncate_fully_and_start_at if start.truncate_fully else partition.log.truncate_to
    truncate(start.offset, now_ms)
    partition.uncommitted.truncate(partition.log.log_end_offset)
