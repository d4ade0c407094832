"""Fetch: read record batches, as a consumer or as a follower that replicates.

v3 bounds the whole response and lets the first batch exceed the bound; v4 reads committed records only, if
asked; v5 returns log start offsets; v7 brings incremental sessions (KIP-227); v9 checks the leader epoch
(KIP-320); v11 reads from the nearest replica (KIP-392); v12 is flexible and returns to a follower where its log
diverges (KIP-595); v13 names topics by id (KIP-516); v15 moves the replica's id into a tagged field (KIP-903);
v16 returns the new leader's address (KIP-951); v17 the follower's log directory (KIP-853); v18 the follower's
high watermark. v1 and v2, v6, v8, v10 and v14 change no request field.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, tagged, until
from sordini.protocol.messages.common import LeaderIdAndEpoch, NodeEndpoint
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    FetchedRecords,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    RowInt32,
    String,
    Uuid,
)


@message(versions=range(19), flexible=12)
class FetchRequest:
    """Partitions to read from, or what has changed among them since the session's last request."""

    cluster_id: NullableString = tagged(0, since=12, default=None)  # Sent inside a KRaft quorum only.
    replica_id: Int32 = until(14, default=-1)  # The follower's broker id; -1: a consumer.
    replica_state: ReplicaState | None = tagged(1, since=15, default=None)  # None: a consumer.
    max_wait_ms: Int32 = 0  # How long to wait until there are `min_bytes`.
    min_bytes: Int32 = 0
    max_bytes: Int32 = since(3, default=0x7FFFFFFF)
    isolation_level: Int8 = since(4, default=0)  # 0: read_uncommitted; 1: read_committed.
    session_id: Int32 = since(7, default=0)  # 0: no session yet.
    session_epoch: Int32 = since(7, default=-1)  # -1: no session; 0: open one; else incremented by each request.
    topics: Array[FetchTopic] = EMPTY
    forgotten_topics_data: Array[ForgottenTopic] = since(7, default=EMPTY)
    rack_id: String = since(11, default="")


@struct
class ReplicaState:
    """Which follower is reading."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1  # The follower's broker epoch; -1: unknown.


@struct
class FetchTopic:
    """The partitions of one topic to read."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: Array[FetchPartition] = EMPTY


@struct
class FetchPartition:
    """One requested partition, and the offset to read from."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1)  # Must be the leader's current epoch; -1: unknown.
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)  # Epoch of the record before `fetch_offset`.
    log_start_offset: Int64 = since(5, default=-1)  # Sent by followers only.
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = tagged(0, since=17, default=ZERO_UUID)  # Sent by followers only.
    high_watermark: Int64 = tagged(1, since=18, default=2**63 - 1)  # The follower's own; the default: unknown.


@struct
class ForgottenTopic:
    """Partitions to remove from the session."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: Array[RowInt32] = EMPTY


@message(versions=range(19), flexible=12)
class FetchResponse:
    """Records; in an incremental session only of partitions that have changed."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = since(7, default=0)
    session_id: Int32 = since(7, default=0)
    responses: Array[FetchableTopicResponse] = EMPTY
    node_endpoints: Array[NodeEndpoint] = tagged(0, since=16, default=EMPTY)


@struct
class FetchableTopicResponse:
    """The records of one topic."""

    topic: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """The records of one partition, and the offsets of its log."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = since(4, default=-1)  # Below it every transaction has ended.
    log_start_offset: Int64 = since(5, default=-1)
    diverging_epoch: EpochEndOffset | None = tagged(0, since=12, default=None)
    current_leader: LeaderIdAndEpoch | None = tagged(1, since=12, default=None)
    snapshot_id: SnapshotId | None = tagged(2, since=12, default=None)  # Inside a KRaft quorum only.
    aborted_transactions: NullableArray[AbortedTransaction] = since(4, default=EMPTY)  # None: not read_committed.
    preferred_read_replica: Int32 = since(11, default=-1)  # The replica to read from next.
    records: FetchedRecords = None


@struct
class EpochEndOffset:
    """Where the follower's log diverges from the leader's: the follower truncates its log to this offset."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class SnapshotId:
    """The snapshot a member of a KRaft quorum should load instead."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    """A producer's records from this offset on, up to its abort marker, are not to be shown."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0
