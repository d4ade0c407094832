"""DescribeProducers: the idempotent and transactional producers that write to partitions (KIP-664)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, NullableString, RowInt32, String


@message(versions=range(1), flexible=0)
class DescribeProducersRequest:
    """The requested partitions."""

    topics: Array[TopicRequest] = EMPTY


@struct
class TopicRequest:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: Array[RowInt32] = EMPTY


@message(versions=range(1), flexible=0)
class DescribeProducersResponse:
    """The producers of each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse] = EMPTY


@struct
class TopicResponse:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[PartitionResponse] = EMPTY


@struct
class PartitionResponse:
    """The producers of one partition, or an error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: Array[ProducerState] = EMPTY


@struct
class ProducerState:
    """One producer as the partition's leader knows it; -1 is for what it does not have."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1
