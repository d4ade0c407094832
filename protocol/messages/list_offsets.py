"""ListOffsets: find a partition's offset by time, or one of its ends.

Timestamps below zero request a special offset: -1 the end, -2 the start, -3 the record with the largest
timestamp (v7), -4 the start of what is on local disk (v8), -5 the end of what is in remote storage (v9), -6
the first that is not yet there (v11). v0 answers with a list of segment starts; v1 with one record's offset
and time; v2 can ignore open transactions; v4 checks the leader epoch; v6 is flexible; v10 waits for remote
storage (KIP-1075).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import Array, Int8, Int16, Int32, Int64, String


@message(versions=range(12), flexible=6)
class ListOffsetsRequest:
    """The requested offsets."""

    replica_id: Int32 = 0  # The follower's broker id; -1: a client, -2: a debugging client.
    isolation_level: Int8 = since(2, default=0)  # 1: the end is the last stable offset.
    topics: Array[ListOffsetsTopic] = EMPTY
    timeout_ms: Int32 = since(10, default=0)  # How long remote storage may take.


@struct
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartition] = EMPTY


@struct
class ListOffsetsPartition:
    """The requested offset of one partition."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1)
    timestamp: Int64 = 0
    max_num_offsets: Int32 = until(0, default=1)


@message(versions=range(12), flexible=6)
class ListOffsetsResponse:
    """The offsets found."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: Array[ListOffsetsTopicResponse] = EMPTY


@struct
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartitionResponse] = EMPTY


@struct
class ListOffsetsPartitionResponse:
    """The offset found in one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Array[Int64] = until(0, default=EMPTY)  # Newest first.
    timestamp: Int64 = since(1, default=-1)  # The found record's; -1 for the ends.
    offset: Int64 = since(1, default=-1)  # -1: no record is that young.
    leader_epoch: Int32 = since(4, default=-1)
