"""OffsetFetch: the committed offsets of groups.

v2 can request all partitions and returns errors of the whole group (KIP-88); v5 carries leader epochs (KIP-320);
v6 is flexible; v7 can require stable offsets, without pending transactions (KIP-447); v8 takes many groups
(KIP-709); v9 names the member (KIP-848); v10 names topics by their ids (KIP-848).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    RowInt32,
    String,
    Uuid,
)


@message(versions=range(11), flexible=6)
class OffsetFetchRequest:
    """The requested offsets: up to v7 of one group, from v8 of many."""

    group_id: String = until(7, default="")
    topics: NullableArray[OffsetFetchRequestTopic] = since(0, until=7, nullable=2, default=EMPTY)  # None: all.
    groups: Array[OffsetFetchRequestGroup] = since(8, default=EMPTY)
    require_stable: Bool = since(7, default=False)


@struct
class OffsetFetchRequestTopic:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: Array[RowInt32] = EMPTY


@struct
class OffsetFetchRequestGroup:
    """One group, and its requested partitions."""

    group_id: String = ""
    member_id: NullableString = since(9, nullable=9, default=None)
    member_epoch: Int32 = since(9, default=-1)
    topics: NullableArray[OffsetFetchRequestTopics] = EMPTY  # None: all.


@struct
class OffsetFetchRequestTopics:
    """Partitions of one topic."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partition_indexes: Array[RowInt32] = EMPTY


@message(versions=range(11), flexible=6)
class OffsetFetchResponse:
    """The offsets: up to v7 of one group, from v8 by group."""

    throttle_time_ms: Int32 = since(3, default=0)
    topics: Array[OffsetFetchResponseTopic] = until(7, default=EMPTY)
    error_code: Int16 = since(2, until=7, default=0)
    groups: Array[OffsetFetchResponseGroup] = since(8, default=EMPTY)


@struct
class OffsetFetchResponseTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OffsetFetchResponsePartition] = EMPTY


@struct
class OffsetFetchResponsePartition:
    """The committed offset of one partition; -1 when there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(5, default=-1)
    metadata: NullableString = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseGroup:
    """One group's offsets."""

    group_id: String = ""
    topics: Array[OffsetFetchResponseTopics] = EMPTY
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    """Partitions of one topic."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: Array[OffsetFetchResponsePartitions] = EMPTY


@struct
class OffsetFetchResponsePartitions:
    """The committed offset of one partition; -1 when there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = ""
    error_code: Int16 = 0
