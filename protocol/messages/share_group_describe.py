"""ShareGroupDescribe: members of share groups and their assignments (KIP-932).

v0 was another protocol, of Apache Kafka 4.0's early access, and is not served.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Bool, Int16, Int32, NullableString, String, Uuid


@message(versions=range(1, 2), flexible=0)
class ShareGroupDescribeRequest:
    """Share groups of one coordinator."""

    group_ids: Array[String] = EMPTY
    include_authorized_operations: Bool = False


@message(versions=range(1, 2), flexible=0)
class ShareGroupDescribeResponse:
    """One row for each group."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = EMPTY


@struct
class Assignment:
    """What a member may read, together with others."""

    topic_partitions: Array[TopicPartitions] = EMPTY


NOTHING_ASSIGNED = Assignment()
"""A default; no code changes it."""


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = EMPTY


@struct
class DescribedGroup:
    """A share group."""

    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[Member] = EMPTY
    authorized_operations: Int32 = -2147483648  # Bits of the operations that the requester is allowed.


@struct
class Member:
    """A member of it."""

    member_id: String = ""
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = EMPTY
    assignment: Assignment = NOTHING_ASSIGNED
