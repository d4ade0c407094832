"""TxnOffsetCommit: a producer commits offsets of a group inside its transaction (KIP-98).

Readers see the offsets when the transaction is committed. v2 carries leader epochs; v3 is flexible and names the
consumer, so that the group coordinator can fence it (KIP-447); v4 knows TRANSACTION_ABORTABLE; v5 is for producers
that send no AddOffsetsToTxn (KIP-890); v6 names topics by their ids (KIP-1319).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, Int64, NullableString, String, Uuid


@message(versions=range(7), flexible=3)
class TxnOffsetCommitRequest:
    """The producer, the group and its consumer, and the offsets."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Int32 = since(3, default=-1)  # -1: not a member.
    member_id: String = since(3, default="")
    group_instance_id: NullableString = since(3, nullable=3, default=None)
    topics: Array[TxnOffsetCommitRequestTopic] = EMPTY


@struct
class TxnOffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: String = until(5, default="")
    topic_id: Uuid = since(6, default=ZERO_UUID)
    partitions: Array[TxnOffsetCommitRequestPartition] = EMPTY


@struct
class TxnOffsetCommitRequestPartition:
    """How far one partition has been read."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(2, default=-1)
    committed_metadata: NullableString = ""


@message(versions=range(7), flexible=3)
class TxnOffsetCommitResponse:
    """The results of all partitions."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic] = EMPTY


@struct
class TxnOffsetCommitResponseTopic:
    """Partitions of one topic."""

    name: String = until(5, default="")
    topic_id: Uuid = since(6, default=ZERO_UUID)
    partitions: Array[TxnOffsetCommitResponsePartition] = EMPTY


@struct
class TxnOffsetCommitResponsePartition:
    """Whether one offset is part of the transaction."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
