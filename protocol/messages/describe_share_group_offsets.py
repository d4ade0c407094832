"""DescribeShareGroupOffsets: the start offsets of share groups (KIP-932).

v1 returns the lag (KIP-1226).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
)


@message(versions=range(2), flexible=0)
class DescribeShareGroupOffsetsRequest:
    """Share groups of one coordinator."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup] = EMPTY


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """One group, and the requested partitions."""

    group_id: String = ""
    topics: NullableArray[DescribeShareGroupOffsetsRequestTopic] = EMPTY  # None: all.


@struct
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: Array[Int32] = EMPTY


@message(versions=range(2), flexible=0)
class DescribeShareGroupOffsetsResponse:
    """One row for each group."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup] = EMPTY


@struct
class DescribeShareGroupOffsetsResponseGroup:
    """One group."""

    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsResponseTopic] = EMPTY
    error_code: Int16 = 0
    error_message: NullableString = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Array[DescribeShareGroupOffsetsResponsePartition] = EMPTY


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """One partition."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0  # -1: not decided yet.
    leader_epoch: Int32 = 0
    lag: Int64 = since(1, default=-1)  # Records that are not done; -1: not known.
    error_code: Int16 = 0
    error_message: NullableString = None
