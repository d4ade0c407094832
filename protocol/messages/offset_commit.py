"""OffsetCommit: a group writes down how far it has read.

v1 names the member and its generation, and (v1 alone) a time for each partition; v2 to v4 may say how long the
offsets are to be kept (KIP-211 took that back); v6 carries leader epochs (KIP-320); v7 has static members (KIP-345);
v8 is flexible; v9 was made for the consumer protocol of KIP-848; v10 names topics by their ids (KIP-848).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, Int64, NullableString, String, Uuid


@message(versions=range(11), flexible=8)
class OffsetCommitRequest:
    """Who commits, and what."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = since(1, default=-1)  # -1: not a member.
    member_id: String = since(1, default="")
    group_instance_id: NullableString = since(7, nullable=7, default=None)
    retention_time_ms: Int64 = since(2, until=4, default=-1)  # -1: as long as the broker keeps them.
    topics: Array[OffsetCommitRequestTopic] = EMPTY


@struct
class OffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: Array[OffsetCommitRequestPartition] = EMPTY


@struct
class OffsetCommitRequestPartition:
    """How far one partition has been read."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1)
    commit_timestamp: Int64 = since(1, until=1, default=-1)  # -1: now.
    committed_metadata: NullableString = ""


@message(versions=range(11), flexible=8)
class OffsetCommitResponse:
    """The results of all partitions."""

    throttle_time_ms: Int32 = since(3, default=0)
    topics: Array[OffsetCommitResponseTopic] = EMPTY


@struct
class OffsetCommitResponseTopic:
    """Partitions of one topic."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: Array[OffsetCommitResponsePartition] = EMPTY


@struct
class OffsetCommitResponsePartition:
    """Whether one offset is written down."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
