"""Appending messages of formats 0 and 1 to a log, beside `Log.append`, which is written for batches.

Nothing of such messages may be stamped but their offsets: an epoch would be written over the CRC. They say nothing of
producers, and they carry no epochs: like Apache Kafka the log forgets those it knew, because a follower that learns
epochs from batches would not hear of the records in between, and must not cut its log by them.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.protocol.records.legacy_validation import LegacyMessages, OffsetMessages
from sordini.storage import appending, flushing
from sordini.storage.log import Log
from sordini.storage.log_state import Appended


def append_messages(log: Log, messages: LegacyMessages | OffsetMessages, now_ms: int) -> Appended:
    """Give checked messages their offsets and write them in one call: to the page cache.

    Raises WrongBaseOffset for messages with other offsets, BrokerError for a message or set that is too large and for
    a full disk; StorageError when the directory is
    offline or goes offline by this.
    """
    log.home.check()
    if log.is_closed:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {log.topic_partition} was closed")
    base = log.log_end_offset
    end_offset = messages.assign_offsets(base)
    size = len(messages.buffer)
    newest = max(header.max_timestamp for _, header in messages.batches)
    appending.check_size(log, size)
    segment = appending.room_for(log, size, end_offset, newest, now_ms)
    start = segment.size
    flushing.write(log.home, segment, messages.buffer, size)
    log.segments.note_recent(base, start)
    log.log_end_offset = end_offset
    log.epochs.truncate_from_end(0)
    appending.index_batches(log, segment, messages.batches, base, start)
    append_time_ms = now_ms if log.config.log_append_time else NO_TIMESTAMP
    return Appended(base, end_offset, append_time_ms, log.log_start_offset, False)
