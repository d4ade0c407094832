"""DeleteRecords: drop the oldest records of partitions (KIP-107).

v1 answers before it throttles; v2 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, String


@message(versions=range(3), flexible=2)
class DeleteRecordsRequest:
    """Up to where which partitions lose their records."""

    topics: Array[DeleteRecordsTopic] = EMPTY
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = EMPTY


@struct
class DeleteRecordsPartition:
    """One partition and the first offset that stays."""

    partition_index: Int32 = 0
    offset: Int64 = 0  # -1: the high watermark.


@message(versions=range(3), flexible=2)
class DeleteRecordsResponse:
    """What is left."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = EMPTY


@struct
class DeleteRecordsTopicResult:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartitionResult] = EMPTY


@struct
class DeleteRecordsPartitionResult:
    """The new log start offset of a partition on all live replicas, or why no records were deleted."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0
