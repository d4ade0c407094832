"""UpdateMetadata: the controller sends a broker the metadata of the cluster (ZooKeeper clusters).

v1 gives every address of a broker, v2 its rack, v3 the listeners' names; v4 sends offline replicas; v5 carries the
receiver's broker epoch (KIP-380) and groups partitions by topic; v6 is flexible; v7 sends topic ids (KIP-516); v8 is
for moves to KRaft (KIP-866).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, tagged, until
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
)


@message(versions=range(9), flexible=6)
class UpdateMetadataRequest:
    """Changed partitions, and all live brokers."""

    controller_id: Int32 = 0
    is_kraft_controller: Bool = since(8, default=False)
    type: Int8 = tagged(0, since=8, default=0)  # 1: some partitions, 2: all, from KRaft controllers only.
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = since(5, default=-1)  # The broker epoch of the receiver; -1: any.
    ungrouped_partition_states: Array[UpdateMetadataPartitionState] = until(4, default=EMPTY)
    topic_states: Array[UpdateMetadataTopicState] = since(5, default=EMPTY)
    live_brokers: Array[UpdateMetadataBroker] = EMPTY


@struct
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = since(7, default=ZERO_UUID)
    partition_states: Array[UpdateMetadataPartitionState] = EMPTY


@struct
class UpdateMetadataPartitionState:
    """The metadata of one partition."""

    topic_name: String = until(4, default="")
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0  # Of the controller that wrote it.
    leader: Int32 = 0  # -1: none; -2: the partition is being deleted.
    leader_epoch: Int32 = 0
    isr: Array[Int32] = EMPTY
    zk_version: Int32 = 0  # The version of the partition's state node.
    replicas: Array[Int32] = EMPTY
    offline_replicas: Array[Int32] = since(4, default=EMPTY)


@struct
class UpdateMetadataBroker:
    """One live broker."""

    id: Int32 = 0
    v0_host: String = until(0, default="")
    v0_port: Int32 = until(0, default=0)
    endpoints: Array[UpdateMetadataEndpoint] = since(1, default=EMPTY)
    rack: NullableString = since(2, default="")


@struct
class UpdateMetadataEndpoint:
    """The address of one listener of a broker."""

    port: Int32 = 0
    host: String = ""
    listener: String = since(3, default="")
    security_protocol: Int16 = 0  # 0: PLAINTEXT, 1: SSL, 2: SASL_PLAINTEXT, 3: SASL_SSL.


@message(versions=range(9), flexible=6)
class UpdateMetadataResponse:
    """Whether the broker has applied it."""

    error_code: Int16 = 0
