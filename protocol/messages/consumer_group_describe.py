"""ConsumerGroupDescribe: groups whose coordinator assigns partitions, and their members (KIP-848).

v1 says which protocol a member uses (KIP-1099).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Bool, Int8, Int16, Int32, NullableString, String, Uuid

OPERATIONS_NOT_REQUESTED = -(2**31)
UNKNOWN_MEMBER_TYPE = -1


@struct
class Assignment:
    """Partitions of a member."""

    topic_partitions: Array[TopicPartitions] = EMPTY


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = EMPTY


NOTHING_ASSIGNED = Assignment()
"""The default of both assignments of a member; no code changes it."""


@message(versions=range(2), flexible=0)
class ConsumerGroupDescribeRequest:
    """Which groups, and whether with the operations that the client may use on them."""

    group_ids: Array[String] = EMPTY
    include_authorized_operations: Bool = False


@message(versions=range(2), flexible=0)
class ConsumerGroupDescribeResponse:
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = EMPTY


@struct
class DescribedGroup:
    """One group; the assignment epoch is lower than the group's until its target assignment is computed."""

    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[Member] = EMPTY
    authorized_operations: Int32 = OPERATIONS_NOT_REQUESTED


@struct
class Member:
    """One member: what it has, and what it is to have."""

    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = EMPTY
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = NOTHING_ASSIGNED
    target_assignment: Assignment = NOTHING_ASSIGNED
    member_type: Int8 = since(1, default=UNKNOWN_MEMBER_TYPE)
