"""ListPartitionReassignments: the partitions that are on the move (KIP-455)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int16, Int32, NullableArray, NullableString, RowInt32, String


@message(versions=range(1), flexible=0)
class ListPartitionReassignmentsRequest:
    """The requested partitions."""

    timeout_ms: Int32 = 60_000
    topics: NullableArray[ListPartitionReassignmentsTopics] = None  # None: all.


@struct
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: Array[RowInt32] = EMPTY


@message(versions=range(1), flexible=0)
class ListPartitionReassignmentsResponse:
    """Those that are on the move."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    topics: Array[OngoingTopicReassignment] = EMPTY


@struct
class OngoingTopicReassignment:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OngoingPartitionReassignment] = EMPTY


@struct
class OngoingPartitionReassignment:
    """The replicas of one partition, and those being added and removed."""

    partition_index: Int32 = 0
    replicas: Array[Int32] = EMPTY
    adding_replicas: Array[Int32] = EMPTY
    removing_replicas: Array[Int32] = EMPTY
