"""LeaderAndIsr: the controller sends a broker the partitions that it leads and follows (ZooKeeper clusters).

v1 says which partitions are new; v2 carries the receiver's broker epoch (KIP-380) and groups partitions by topic; v3
names replicas being added and removed (KIP-455); v4 is flexible; v5 has topic ids, and groups its response by them
(KIP-516); v6 says which leaders are recovering (KIP-704); v7 is for moves to KRaft (KIP-866).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import ZERO_UUID, Array, Bool, Int8, Int16, Int32, Int64, String, Uuid


@message(versions=range(8), flexible=4)
class LeaderAndIsrRequest:
    """The partitions, and the addresses of their leaders."""

    controller_id: Int32 = 0
    is_kraft_controller: Bool = since(7, default=False)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = since(2, default=-1)  # The broker epoch of the receiver; -1: any.
    type: Int8 = since(5, default=0)  # 1: some partitions, 2: all, from KRaft controllers only.
    ungrouped_partition_states: Array[LeaderAndIsrPartitionState] = until(1, default=EMPTY)
    topic_states: Array[LeaderAndIsrTopicState] = since(2, default=EMPTY)
    live_leaders: Array[LeaderAndIsrLiveLeader] = EMPTY


@struct
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = since(5, default=ZERO_UUID)
    partition_states: Array[LeaderAndIsrPartitionState] = EMPTY


@struct
class LeaderAndIsrPartitionState:
    """The leader and ISR of one partition."""

    topic_name: String = until(1, default="")
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0  # Of the controller that wrote it.
    leader: Int32 = 0  # -1: none.
    leader_epoch: Int32 = 0
    isr: Array[Int32] = EMPTY
    partition_epoch: Int32 = 0  # The version of the partition's state node.
    replicas: Array[Int32] = EMPTY
    adding_replicas: Array[Int32] = since(3, default=EMPTY)
    removing_replicas: Array[Int32] = since(3, default=EMPTY)
    is_new: Bool = since(1, default=False)
    leader_recovery_state: Int8 = since(6, default=0)  # 1: after an unclean election, not yet recovered.


@struct
class LeaderAndIsrLiveLeader:
    """The inter-broker address of a leader."""

    broker_id: Int32 = 0
    host_name: String = ""
    port: Int32 = 0


@message(versions=range(8), flexible=4)
class LeaderAndIsrResponse:
    """The results of all partitions."""

    error_code: Int16 = 0
    partition_errors: Array[LeaderAndIsrPartitionError] = until(4, default=EMPTY)
    topics: Array[LeaderAndIsrTopicError] = since(5, default=EMPTY)


@struct
class LeaderAndIsrTopicError:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partition_errors: Array[LeaderAndIsrPartitionError] = EMPTY


@struct
class LeaderAndIsrPartitionError:
    """One partition's error code; 0 is success."""

    topic_name: String = until(4, default="")
    partition_index: Int32 = 0
    error_code: Int16 = 0
