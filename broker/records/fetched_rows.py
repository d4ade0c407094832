"""Rows of the response to Fetch, and the bytes in them."""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.records.batch import LENGTH_PREFIX
from sordini.protocol.records.peek import SIZE_FIELD_BYTES, SIZE_POSITION, batch_bytes
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.storage.file_slice import FileSlice

UNKNOWN_TOPIC_CODES = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def found(partition: Partition, leader: Leader | None, index: int) -> PartitionData:
    """The row of one partition, without records; `leader` is None on a follower.

    A follower's watermark is behind the leader's until its next fetch: records above it are not served yet. An offset
    beyond its log end is out of range, and the consumer goes back to the leader.
    """
    log = partition.log
    high_watermark = log.high_watermark if leader is None else leader.high_watermark
    return PartitionData(
        partition_index=index,
        high_watermark=high_watermark,
        last_stable_offset=log.last_stable_offset(high_watermark),
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def refused(partition: int, code: ErrorCode) -> PartitionData:
    """The row of a partition that cannot be read."""
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=[] if code in UNKNOWN_TOPIC_CODES else None,
        records=None if code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE else b"",
    )


def begins_whole(piece: FileSlice) -> bool:
    """Whether a slice contains its first batch as a whole."""
    if piece.size < LENGTH_PREFIX:
        return False
    return batch_bytes(piece.file.read_at(piece.position + SIZE_POSITION, SIZE_FIELD_BYTES)) <= piece.size
