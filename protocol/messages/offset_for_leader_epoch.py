"""OffsetForLeaderEpoch: where a leader's epoch ended in the log, so that a reader finds where its own parts.

v1 tells the epoch found as well (KIP-279); v2 checks the leader's present epoch (KIP-320); v3 tells who asks;
v4 is flexible.
"""

from __future__ import annotations

from sordini.protocol.primitives import Array, Int16, Int32, Int64, String
from sordini.protocol.schema import EMPTY, message, since, struct


@message(versions=range(5), flexible=4)
class OffsetForLeaderEpochRequest:
    """The epochs asked for."""

    replica_id: Int32 = since(3, default=-2)  # The follower's broker id; -1: a consumer.
    topics: Array[OffsetForLeaderTopic] = EMPTY


@struct
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = EMPTY


@struct
class OffsetForLeaderPartition:
    """The epoch asked for in one partition."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(2, default=-1)  # Refused when the leader's is another; -1: unknown.
    leader_epoch: Int32 = 0


@message(versions=range(5), flexible=4)
class OffsetForLeaderEpochResponse:
    """The ends found."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: Array[OffsetForLeaderTopicResult] = EMPTY


@struct
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: String = ""
    partitions: Array[EpochEndOffset] = EMPTY


@struct
class EpochEndOffset:
    """The largest epoch not above the one asked for, and the first offset that is not in it."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = since(1, default=-1)
    end_offset: Int64 = -1
