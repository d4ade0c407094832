"""OffsetForLeaderEpoch: where a leader's epoch ended in the log, so that a reader finds where its own parts.

v1 returns the found epoch as well (KIP-279); v2 checks the current leader epoch (KIP-320); v3 sends the replica id;
v4 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, String


@message(versions=range(5), flexible=4)
class OffsetForLeaderEpochRequest:
    """The requested epochs."""

    replica_id: Int32 = since(3, default=-2)  # The follower's broker id; -1: a consumer.
    topics: Array[OffsetForLeaderTopic] = EMPTY


@struct
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = EMPTY


@struct
class OffsetForLeaderPartition:
    """The requested epoch of one partition."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(2, default=-1)  # Must be the leader's current epoch; -1: unknown.
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
    """The largest epoch up to the requested one, and its end offset."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = since(1, default=-1)
    end_offset: Int64 = -1
