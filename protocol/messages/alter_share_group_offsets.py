"""AlterShareGroupOffsets: start offsets for a share group without members (KIP-932)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, Int64, NullableString, String, Uuid


@message(versions=range(1), flexible=0)
class AlterShareGroupOffsetsRequest:
    """Partitions of one group."""

    group_id: String = ""
    topics: Array[AlterShareGroupOffsetsRequestTopic] = EMPTY


@struct
class AlterShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: String = ""
    partitions: Array[AlterShareGroupOffsetsRequestPartition] = EMPTY


@struct
class AlterShareGroupOffsetsRequestPartition:
    """One partition and its new start offset."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


@message(versions=range(1), flexible=0)
class AlterShareGroupOffsetsResponse:
    """One row for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[AlterShareGroupOffsetsResponseTopic] = EMPTY


@struct
class AlterShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AlterShareGroupOffsetsResponsePartition] = EMPTY


@struct
class AlterShareGroupOffsetsResponsePartition:
    """One partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
