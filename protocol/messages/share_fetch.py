"""ShareFetch: acquire records of a share group, and acknowledge those acquired before (KIP-932).

v0 was another protocol, of Apache Kafka 4.0's early access, and is not served. v2 acquires by records instead of by
batches (KIP-1206) and renews locks (KIP-1222).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, NEVER, message, since, struct
from sordini.protocol.messages.common import NO_LEADER, AcknowledgementBatch, NodeEndpoint, SharePartitionLeader
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bool,
    FetchedRecords,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    RowInt32,
    Uuid,
)


@message(versions=range(1, 3), flexible=0)
class ShareFetchRequest:
    """Partitions that the session gets or loses, and acknowledgements of what it holds."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0  # 0: open a session; -1: close it; else incremented by each request.
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF  # The first batch may exceed it.
    max_records: Int32 = 0  # Batches may exceed it, unless records are acquired one by one.
    batch_size: Int32 = 0  # How many records one range of acquired records should have.
    share_acquire_mode: Int8 = since(2, default=0)  # 0: whole batches; 1: no more than max_records.
    is_renew_ack: Bool = since(2, default=False)  # Locks are renewed; nothing may be acquired.
    topics: Array[FetchTopic] = EMPTY
    forgotten_topics_data: Array[ForgottenTopic] = EMPTY


@struct
class FetchTopic:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[FetchPartition] = EMPTY


@struct
class ForgottenTopic:
    """Partitions to remove from the session."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[RowInt32] = EMPTY


@struct
class FetchPartition:
    """One partition."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[AcknowledgementBatch] = EMPTY


@message(versions=range(1, 3), flexible=0)
class ShareFetchResponse:
    """The acquired records of each partition, and what became of the acknowledgements."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0  # For how long acquired records are locked.
    responses: Array[ShareFetchableTopicResponse] = EMPTY
    node_endpoints: Array[NodeEndpoint] = EMPTY


@struct
class ShareFetchableTopicResponse:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """Records of one partition: those that are acquired, perhaps among others."""

    partition_index: Int32 = 0
    error_code: Int16 = 0  # Of the fetch.
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: SharePartitionLeader = NO_LEADER
    records: FetchedRecords = since(0, nullable=NEVER, default=None)  # Always sent: b"" without any.
    acquired_records: Array[AcquiredRecords] = EMPTY


@struct
class AcquiredRecords:
    """A range of offsets that the member holds now."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0  # Inclusive.
    delivery_count: Int16 = 0
