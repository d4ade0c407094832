"""Metadata: the cluster's brokers and topics, and the leader of each partition.

v1 returns racks, the controller and internal topics, and distinguishes "all topics" from "none"; v2 the cluster id;
v4 may forbid auto-creation of topics; v5 returns offline replicas; v7 leader epochs; v8 allowed operations
(KIP-430; the cluster's only until v10); v9 is flexible; v10 returns topic ids and v12 accepts them in requests
(KIP-516); v13 can answer with an error for the whole request (KIP-1102).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
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

OPERATIONS_UNKNOWN = -(2**31)
"""Allowed operations that were not requested."""


@message(versions=range(14), flexible=9)
class MetadataRequest:
    """The requested topics."""

    topics: NullableArray[MetadataRequestTopic] = since(0, default=EMPTY, nullable=1)  # None (v0: empty): all.
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = since(8, until=10, default=False)
    include_topic_authorized_operations: Bool = since(8, default=False)


@struct
class MetadataRequestTopic:
    """One topic, by name or (when the name is null) by id."""

    topic_id: Uuid = since(10, default=ZERO_UUID)
    name: NullableString = since(0, default="", nullable=10)


@message(versions=range(14), flexible=9)
class MetadataResponse:
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = since(3, default=0)
    brokers: Array[MetadataResponseBroker] = EMPTY
    cluster_id: NullableString = since(2, default=None)
    controller_id: Int32 = since(1, default=-1)
    topics: Array[MetadataResponseTopic] = EMPTY
    cluster_authorized_operations: Int32 = since(8, until=10, default=OPERATIONS_UNKNOWN)
    error_code: Int16 = since(13, default=0)


@struct
class MetadataResponseBroker:
    """One live broker, at its address for the listener of the request."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = since(1, default=None)


@struct
class MetadataResponseTopic:
    """One topic, or an error."""

    error_code: Int16 = 0
    name: NullableString = since(0, default="", nullable=12)
    topic_id: Uuid = since(10, default=ZERO_UUID)
    is_internal: Bool = since(1, default=False)
    partitions: Array[MetadataResponsePartition] = EMPTY
    topic_authorized_operations: Int32 = since(8, default=OPERATIONS_UNKNOWN)


@struct
class MetadataResponsePartition:
    """One partition; all lists are of broker ids."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0  # -1: no leader.
    leader_epoch: Int32 = since(7, default=-1)
    replica_nodes: Array[Int32] = EMPTY
    isr_nodes: Array[Int32] = EMPTY
    offline_replicas: Array[Int32] = since(5, default=EMPTY)
