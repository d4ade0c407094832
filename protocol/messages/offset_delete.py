"""OffsetDelete: forget what a group has committed for some partitions (KIP-496)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.declare import NEVER
from sordini.protocol.primitives import Array, Int16, Int32, String


@message(versions=range(1), flexible=NEVER)
class OffsetDeleteRequest:
    """What to forget."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = EMPTY


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteRequestPartition] = EMPTY


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: Int32 = 0


@message(versions=range(1), flexible=NEVER)
class OffsetDeleteResponse:
    """The results; with an error of the whole group the topics are empty."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = EMPTY


@struct
class OffsetDeleteResponseTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteResponsePartition] = EMPTY


@struct
class OffsetDeleteResponsePartition:
    """Whether one offset is gone."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
