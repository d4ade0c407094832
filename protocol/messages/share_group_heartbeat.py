"""ShareGroupHeartbeat: a member of a share group (KIP-932).

v0 was another protocol, of Apache Kafka 4.0's early access, and is not served.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, NullableArray, NullableString, String, Uuid


@message(versions=range(1, 2), flexible=0)
class ShareGroupHeartbeatRequest:
    """The member and its subscription; null for what has not changed."""

    group_id: String = ""
    member_id: String = ""  # Made by the client.
    member_epoch: Int32 = 0  # 0: it joins; -1: it leaves.
    rack_id: NullableString = None
    subscribed_topic_names: NullableArray[String] = None


@message(versions=range(1, 2), flexible=0)
class ShareGroupHeartbeatResponse:
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
    """What a member may read, together with others."""

    topic_partitions: Array[TopicPartitions] = EMPTY


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = EMPTY
