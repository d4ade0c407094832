"""Rows of an answer to Fetch, and the bytes in them."""

from __future__ import annotations

import struct

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.common import LeaderIdAndEpoch
from sordini.protocol.messages.fetch import PartitionData
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.storage.file_slice import FileSlice

NOWHERE_CODES = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
BATCH_PREFIX_BYTES = 12
BATCH_LENGTH = struct.Struct(">i")


def found(partition: Partition, leader: Leader | None, index: int) -> PartitionData:
    """The answer for one partition, but for its records; without a leader it is a follower's.

    A follower's watermark is behind the leader's until it fetches again: what lies between that and its end is there
    and not told of, and what lies beyond its end is out of range, upon which a consumer asks the leader again.
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


def leader_of(partition: Partition) -> LeaderIdAndEpoch | None:
    """Who leads a partition of which there is a copy here, as far as its leader has been told to this broker."""
    if partition.leader is not None:
        return LeaderIdAndEpoch(leader_id=partition.leader.broker_id, leader_epoch=partition.leader_epoch)
    if partition.follower is not None:
        return LeaderIdAndEpoch(leader_id=partition.follower.leader_id, leader_epoch=partition.leader_epoch)
    return None


def refused(partition: int, code: ErrorCode) -> PartitionData:
    """The answer for a partition from which nothing can be read."""
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=[] if code in NOWHERE_CODES else None,
        records=None if code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE else b"",
    )


def begins_whole(piece: FileSlice) -> bool:
    """Whether the first batch of a slice is all there: its length stands behind its base offset."""
    if piece.size < BATCH_PREFIX_BYTES:
        return False
    (length,) = BATCH_LENGTH.unpack(piece.file.read_at(piece.position + 8, BATCH_LENGTH.size))
    return bool(BATCH_PREFIX_BYTES + length <= piece.size)
