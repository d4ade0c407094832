"""AlterPartitionReassignments: move partitions to other brokers, or stop moving them (KIP-455).

v1 can forbid that a move changes the number of replicas (KIP-860).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bool, Int16, Int32, NullableArray, NullableString, String


@message(versions=range(2), flexible=0)
class AlterPartitionReassignmentsRequest:
    """What goes where."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: Array[ReassignableTopic] = EMPTY


@struct
class ReassignableTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[ReassignablePartition] = EMPTY


@struct
class ReassignablePartition:
    """One partition and its target replicas, the preferred leader first."""

    partition_index: Int32 = 0
    replicas: NullableArray[Int32] = None  # None: cancel the move that is under way.


@message(versions=range(2), flexible=0)
class AlterPartitionReassignmentsResponse:
    """The results of all partitions."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    responses: Array[ReassignableTopicResponse] = EMPTY


@struct
class ReassignableTopicResponse:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[ReassignablePartitionResponse] = EMPTY


@struct
class ReassignablePartitionResponse:
    """One partition that begins to move, or why not."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
