"""SyncGroup: a member requests its assignment, and the leader sends those of all members.

v3 has static members (KIP-345); v4 is flexible; v5 sends the member's protocol type and name (KIP-559).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bytes, Int16, Int32, NullableString, String


@message(versions=range(6), flexible=4)
class SyncGroupRequest:
    """The requesting member and, from the leader, the assignments."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, nullable=3, default=None)
    protocol_type: NullableString = since(5, nullable=5, default=None)
    protocol_name: NullableString = since(5, nullable=5, default=None)
    assignments: Array[SyncGroupRequestAssignment] = EMPTY


@struct
class SyncGroupRequestAssignment:
    """What one member gets."""

    member_id: String = ""
    assignment: Bytes = b""


@message(versions=range(6), flexible=4)
class SyncGroupResponse:
    """What the member gets."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    protocol_type: NullableString = since(5, nullable=5, default=None)
    protocol_name: NullableString = since(5, nullable=5, default=None)
    assignment: Bytes = b""
