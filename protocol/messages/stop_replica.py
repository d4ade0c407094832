"""StopReplica: the controller makes a broker stop serving partitions, or delete them (ZooKeeper clusters).

v1 carries the receiver's broker epoch (KIP-380) and groups partitions by topic; v2 is flexible; v3 gives each partition
a leader epoch, and says of each whether it is to be deleted (KIP-570); v4 is for moves to KRaft (KIP-866).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import Array, Bool, Int16, Int32, Int64, String


@message(versions=range(5), flexible=2)
class StopReplicaRequest:
    """The partitions concerned."""

    controller_id: Int32 = 0
    is_kraft_controller: Bool = since(4, default=False)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = since(1, default=-1)  # The broker epoch of the receiver; -1: any.
    delete_partitions: Bool = until(2, default=False)
    ungrouped_partitions: Array[StopReplicaPartitionV0] = until(0, default=EMPTY)
    topics: Array[StopReplicaTopicV1] = since(1, until=2, default=EMPTY)
    topic_states: Array[StopReplicaTopicState] = since(3, default=EMPTY)


@struct
class StopReplicaPartitionV0:
    """One partition, in the first version."""

    topic_name: String = ""
    partition_index: Int32 = 0


@struct
class StopReplicaTopicV1:
    """The partitions of one topic, before each had an epoch."""

    name: String = ""
    partition_indexes: Array[Int32] = EMPTY


@struct
class StopReplicaTopicState:
    """The partitions of one topic."""

    topic_name: String = ""
    partition_states: Array[StopReplicaPartitionState] = EMPTY


@struct
class StopReplicaPartitionState:
    """Whether one partition's replica is stopped or deleted."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = -1  # -1: not known; -2: the topic is being deleted.
    delete_partition: Bool = False


@message(versions=range(5), flexible=2)
class StopReplicaResponse:
    """The results of all partitions."""

    error_code: Int16 = 0
    partition_errors: Array[StopReplicaPartitionError] = EMPTY


@struct
class StopReplicaPartitionError:
    """One partition's error code; 0 is success."""

    topic_name: String = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0
