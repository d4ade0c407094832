"""AlterPartition (earlier AlterIsr): a leader requests an ISR change from the controller (KIP-497).

v1 says which leaders are recovering (KIP-704); v2 names topics by id (KIP-841); v3 sends the members'
broker epochs (KIP-903).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import ZERO_UUID, Array, Int8, Int16, Int32, Int64, String, Uuid


@message(versions=range(4), flexible=0)
class AlterPartitionRequest:
    """The sets wanted."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: Array[TopicData] = EMPTY


@struct
class TopicData:
    """The partitions of one topic."""

    topic_name: String = until(1, default="")
    topic_id: Uuid = since(2, default=ZERO_UUID)
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """The set wanted for one partition, and the state on which that was decided."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Array[Int32] = until(2, default=EMPTY)
    new_isr_with_epochs: Array[BrokerState] = since(3, default=EMPTY)
    leader_recovery_state: Int8 = since(1, default=0)
    partition_epoch: Int32 = 0  # The version of the partition's state node.


@struct
class BrokerState:
    """A member of the ISR, and the broker epoch that the leader saw."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1  # -1: unknown.


@message(versions=range(4), flexible=0)
class AlterPartitionResponse:
    """The sets in force."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: Array[AlteredTopicData] = EMPTY


@struct
class AlteredTopicData:
    """The partitions of one topic."""

    topic_name: String = until(1, default="")
    topic_id: Uuid = since(2, default=ZERO_UUID)
    partitions: Array[AlteredPartitionData] = EMPTY


@struct
class AlteredPartitionData:
    """One partition as it is now, or why it was not changed."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: Array[Int32] = EMPTY
    leader_recovery_state: Int8 = since(1, default=0)
    partition_epoch: Int32 = 0
