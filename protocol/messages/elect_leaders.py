"""ElectLeaders: request leader elections of partitions (KIP-183).

v1 knows a second kind of election and an error for the whole request (KIP-460); v2 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, NullableArray, NullableString, RowInt32, String


@message(versions=range(3), flexible=2)
class ElectLeadersRequest:
    """The partitions, and which replica may win."""

    election_type: Int8 = since(1, default=0)  # 0: the preferred one; 1: any live one if none is in sync.
    topic_partitions: NullableArray[TopicPartitions] = EMPTY  # None: all.
    timeout_ms: Int32 = 60_000


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[RowInt32] = EMPTY


@message(versions=range(3), flexible=2)
class ElectLeadersResponse:
    """The results of all elections."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: Array[ReplicaElectionResult] = EMPTY


@struct
class ReplicaElectionResult:
    """Partitions of one topic."""

    topic: String = ""
    partition_result: Array[PartitionResult] = EMPTY


@struct
class PartitionResult:
    """One partition that has a new leader, or why not."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
