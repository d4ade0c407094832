"""DescribeSegments: the segments of logs, as the broker that has a replica sees them. Sordini's own request.

Apache Kafka has no such request. The segments of the named partitions are in one order, by partition and base offset,
so that a response with too many of them is continued from the first that it left out. Times are those of records, in
milliseconds; -1 is not known.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Int16, Int32, Int64, NullableString, String


@message(versions=range(1), flexible=0)
class DescribeSegmentsRequest:
    """Partitions of one broker."""

    topics: Array[SegmentsTopic] = EMPTY
    segments_max: Int32 = -1  # Of the whole response; -1 for as many as the broker allows.


@struct
class SegmentsTopic:
    """One topic."""

    name: String = ""
    partitions: Array[SegmentsPartition] = EMPTY


@struct
class SegmentsPartition:
    """One partition; segments before the one that holds the offset are left out."""

    partition_index: Int32 = 0
    from_offset: Int64 = -1


@message(versions=range(1), flexible=0)
class DescribeSegmentsResponse:
    """The rows in the order of the request. After `segments_max` the rows have totals, and no segments."""

    throttle_time_ms: Int32 = 0
    topics: Array[SegmentsTopicResult] = EMPTY


@struct
class SegmentsTopicResult:
    """One topic."""

    name: String = ""
    partitions: Array[SegmentsPartitionResult] = EMPTY


@struct
class SegmentsPartitionResult:
    """One replica's log."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    segment_count: Int32 = 0  # Of the whole log.
    log_bytes: Int64 = 0  # Of the whole log.
    log_start_offset: Int64 = -1
    high_watermark: Int64 = -1  # As this replica knows it.
    log_end_offset: Int64 = -1
    appended: Int64 = 0  # Offsets, within the window; of a leader.
    window_ms: Int32 = 0  # Up to a minute; 0 while it is not known.
    next_offset: Int64 = -1  # Base offset of the first segment that is left out at the end; -1 for none.
    segments: Array[SegmentRow] = EMPTY


@struct
class SegmentRow:
    """One segment."""

    base_offset: Int64 = 0
    end_offset: Int64 = 0  # The first offset of the next.
    log_bytes: Int64 = 0
    first_timestamp: Int64 = -1  # The largest of its first batch.
    largest_timestamp: Int64 = -1
    is_active: Bool = False
