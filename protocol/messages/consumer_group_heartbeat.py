"""ConsumerGroupHeartbeat: a member of a group whose coordinator assigns partitions (KIP-848).

v1 subscribes by regular expressions, and members make their ids themselves.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, NullableArray, NullableString, String, Uuid


@message(versions=range(2), flexible=0)
class ConsumerGroupHeartbeatRequest:
    """The member, its subscription and owned partitions; null for what has not changed."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: NullableArray[String] = None
    subscribed_topic_regex: NullableString = since(1, default=None)
    server_assignor: NullableString = None
    topic_partitions: NullableArray[TopicPartitions] = None


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = EMPTY


@message(versions=range(2), flexible=0)
class ConsumerGroupHeartbeatResponse:
    """The member's epoch, and its assignment when that has changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


@struct
class Assignment:
    """What a member may own."""

    topic_partitions: Array[TopicPartitions] = EMPTY
