"""DescribeUnreadRecords: the oldest record at or after an offset, and when it was appended. Sordini's own request.

Apache Kafka has no such request. It goes to the leaders of the partitions. Records that were removed by compaction,
transaction markers and, for readers of committed records, records of aborted transactions are no records here. Ages
are in milliseconds by the leader's monotonic clock, so that no other clock matters; -1 is not known.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Int8, Int16, Int32, Int64, NullableString, String


@message(versions=range(1), flexible=0)
class DescribeUnreadRecordsRequest:
    """Partitions that one broker leads, each from an offset on."""

    isolation_level: Int8 = 1  # 0 reads up to the high watermark, 1 up to the last stable offset.
    topics: Array[UnreadRecordsTopic] = EMPTY


@struct
class UnreadRecordsTopic:
    """One topic."""

    name: String = ""
    partitions: Array[UnreadRecordsPartition] = EMPTY


@struct
class UnreadRecordsPartition:
    """One partition; the offset is the next that is to be read, -1 for the log start offset."""

    partition_index: Int32 = 0
    offset: Int64 = -1


@message(versions=range(1), flexible=0)
class DescribeUnreadRecordsResponse:
    """The rows in the order of the request."""

    throttle_time_ms: Int32 = 0
    now_ms: Int64 = -1  # The broker's wall clock, to compare the records' timestamps with.
    topics: Array[UnreadRecordsTopicResult] = EMPTY


@struct
class UnreadRecordsTopicResult:
    """One topic."""

    name: String = ""
    partitions: Array[UnreadRecordsPartitionResult] = EMPTY


@struct
class UnreadRecordsPartitionResult:
    """One partition: its bounds, how fast it grows, and its oldest unread record."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    log_start_offset: Int64 = -1
    high_watermark: Int64 = -1
    last_stable_offset: Int64 = -1
    appended: Int64 = 0  # Offsets, within the window.
    window_ms: Int32 = 0  # Up to a minute; 0 while the leader has not watched for long enough.
    record_offset: Int64 = -1  # -1: there is no unread record below the end for readers.
    is_record_exact: Bool = True  # False: there may be no record before this offset, but it was not searched further.
    timestamp: Int64 = -1  # The record's own, ms.
    timestamp_type: Int8 = -1  # 0 CreateTime, 1 LogAppendTime.
    appended_age_min_ms: Int64 = -1  # It was appended at least so long ago.
    appended_age_max_ms: Int64 = -1  # And at most so long ago.
