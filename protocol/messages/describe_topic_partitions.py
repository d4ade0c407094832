"""DescribeTopicPartitions: the partitions of topics, page by page (KIP-966).

Topics come in the order of their names. An answer that had to stop says in its cursor where the next request
goes on.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.messages.metadata import OPERATIONS_UNKNOWN
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
)


@struct
class Cursor:
    """The first partition of the next page."""

    topic_name: String = ""
    partition_index: Int32 = 0


@message(versions=range(1), flexible=0)
class DescribeTopicPartitionsRequest:
    """The requested topics, the cursor, and the largest number of partitions."""

    topics: Array[TopicRequest] = EMPTY  # Empty: all.
    response_partition_limit: Int32 = 2_000
    cursor: Cursor | None = None


@struct
class TopicRequest:
    """One topic."""

    name: String = ""


@message(versions=range(1), flexible=0)
class DescribeTopicPartitionsResponse:
    """One page."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic] = EMPTY
    next_cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponseTopic:
    """One topic with its partitions on this page, or an error."""

    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition] = EMPTY
    topic_authorized_operations: Int32 = OPERATIONS_UNKNOWN


@struct
class DescribeTopicPartitionsResponsePartition:
    """One partition; all lists are of broker ids."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0  # -1: no leader.
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32] = EMPTY
    isr_nodes: Array[Int32] = EMPTY
    eligible_leader_replicas: NullableArray[Int32] = None
    last_known_elr: NullableArray[Int32] = None
    offline_replicas: Array[Int32] = EMPTY
