"""DescribeShareInFlight: the records of share partitions that are in flight, and who holds them. Sordini's own request.

Apache Kafka has no such request. It goes to the leaders of the partitions. In flight is what is at or behind the start
offset and below the end offset: records of one run have the same state, member, delivery count and age. Times are in
milliseconds by the leader's monotonic clock; -1 is not known.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Int8, Int16, Int32, Int64, NullableString, String


@message(versions=range(1), flexible=0)
class DescribeShareInFlightRequest:
    """Partitions that one broker leads, of one group."""

    group_id: String = ""
    runs_max: Int32 = 1000  # Of each partition; a response has 10,000 at most in all.
    from_offset: Int64 = 0  # What is before it is left out.
    topics: Array[ShareInFlightTopic] = EMPTY


@struct
class ShareInFlightTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[Int32] = EMPTY


@message(versions=range(1), flexible=0)
class DescribeShareInFlightResponse:
    """The rows in the order of the request, or the error of the group."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    topics: Array[ShareInFlightTopicResult] = EMPTY


@struct
class ShareInFlightTopicResult:
    """One topic."""

    name: String = ""
    partitions: Array[ShareInFlightPartition] = EMPTY


@struct
class ShareInFlightPartition:
    """One partition. A group that has not read it since this broker leads it has no offsets here, and no runs."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    start_offset: Int64 = -1  # The first offset that is not done.
    end_offset: Int64 = -1  # The first one that was never acquired.
    lock_duration_ms: Int32 = -1
    delivery_count_limit: Int16 = -1
    runs: Array[ShareInFlightRun] = EMPTY
    has_more: Bool = False  # There are more runs: request those from behind the last one's end.


@struct
class ShareInFlightRun:
    """Records one after another, in one state."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0  # Inclusive.
    state: Int8 = 0  # As in stored state: 0 available, 1 acquired, 2 acknowledged, 3 archiving, 4 archived.
    delivery_count: Int16 = 0
    member_id: NullableString = None  # Of acquired ones.
    acquired_ago_ms: Int64 = -1  # Since the lock was taken or renewed.
    lock_left_ms: Int64 = -1  # Until it ends.
