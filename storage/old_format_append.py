"""Appending messages of formats 0 and 1 to a log; `Log.append` is for batches (format 2).

Only the offsets of such messages may be stamped: an epoch would overwrite the CRC. They carry neither producers nor
leader epochs. Like Apache Kafka, the log forgets the epochs it knew: a follower that learns epochs from batches would
not learn of the records in between, and must not truncate its log by them.
"""

from __future__ import annotations

from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.protocol.records.legacy_validation import LegacyMessages, OffsetMessages
from sordini.storage import appending
from sordini.storage.appending import LogAppendInfo
from sordini.storage.log_state import LogState


def append_old_messages(log: LogState, messages: LegacyMessages | OffsetMessages, now_ms: int) -> LogAppendInfo:
    """Assign offsets to checked messages and write them in one call: to the page cache.

    Raises WrongBaseOffset for messages with offsets for another log end, BrokerError for a message or set that is too
    large and for a full disk; StorageError when the directory is offline or goes offline by this.
    """
    log.ensure_writable()
    base = log.log_end_offset
    end_offset = messages.assign_offsets(base)
    size = len(messages.buffer)
    if size > log.config.segment_bytes:
        raise appending.too_large(log, size)
    newest = max(header.max_timestamp for _, header in messages.batches)
    segment = log.append_bytes(messages.buffer, size, base, end_offset, newest, now_ms)
    log.epochs.truncate_from_end(0)
    appending.index_batches(log, segment, messages.batches, base, segment.size - size)
    append_time_ms = now_ms if log.config.log_append_time else NO_TIMESTAMP
    return LogAppendInfo(base, end_offset, append_time_ms, log.log_start_offset, False)
