"""Produce: append record batches to partitions.

v1-v2 bring throttling and the append time; v3 the transactional id and v2 record batches; v5 the log start
offset; v8 errors of single records (KIP-467); v9 is flexible; v10 returns the new leader (KIP-951); v12 adds
partitions to a transaction by producing (KIP-890); v13 names topics by id (KIP-516). v4, v6, v7 and v11
change no field: they say which codecs and error codes the client knows.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, tagged, until
from sordini.protocol.messages.common import LeaderIdAndEpoch, NodeEndpoint
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    ProducedRecords,
    String,
    Uuid,
)


@message(versions=range(14), flexible=9)
class ProduceRequest:
    """Batches for any number of partitions, each appended or refused by itself."""

    transactional_id: NullableString = since(3, default=None)
    acks: Int16 = 0  # 0: no response; 1: after the leader's append; -1: after the ISR's.
    timeout_ms: Int32 = 0  # The longest wait for the in-sync replicas.
    topic_data: Array[TopicProduceData] = EMPTY


@struct
class TopicProduceData:
    """The batches for one topic."""

    name: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_data: Array[PartitionProduceData] = EMPTY


@struct
class PartitionProduceData:
    """The batches for one partition."""

    index: Int32 = 0
    records: ProducedRecords = None


@message(versions=range(14), flexible=9)
class ProduceResponse:
    """The results of all partitions."""

    responses: Array[TopicProduceResponse] = EMPTY
    throttle_time_ms: Int32 = since(1, default=0)
    node_endpoints: Array[NodeEndpoint] = tagged(0, since=10, default=EMPTY)


@struct
class TopicProduceResponse:
    """The results of one topic."""

    name: String = until(12, default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_responses: Array[PartitionProduceResponse] = EMPTY


@struct
class PartitionProduceResponse:
    """The result of one partition."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0  # The first record's offset; -1 with an error.
    log_append_time_ms: Int64 = since(2, default=-1)  # -1: the producer's own timestamps were kept.
    log_start_offset: Int64 = since(5, default=-1)
    record_errors: Array[BatchIndexAndErrorMessage] = since(8, default=EMPTY)
    error_message: NullableString = since(8, default=None)
    current_leader: LeaderIdAndEpoch | None = tagged(0, since=10, default=None)


@struct
class BatchIndexAndErrorMessage:
    """A record that caused its batch to be refused."""

    batch_index: Int32 = 0  # Index of the record in its batch, from 0.
    batch_index_error_message: NullableString = None
