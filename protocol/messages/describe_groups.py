"""DescribeGroups: the state, the members and the assignment of groups.

v3 can return the caller's allowed operations (KIP-430); v4 has static members (KIP-345); v5 is flexible; v6 says
GROUP_ID_NOT_FOUND where older versions describe a dead group (KIP-1043).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bool, Bytes, Int16, Int32, NullableString, String


@message(versions=range(7), flexible=5)
class DescribeGroupsRequest:
    """The requested groups."""

    groups: Array[String] = EMPTY
    include_authorized_operations: Bool = since(3, default=False)


@message(versions=range(7), flexible=5)
class DescribeGroupsResponse:
    """Each of them."""

    throttle_time_ms: Int32 = since(1, default=0)
    groups: Array[DescribedGroup] = EMPTY


@struct
class DescribedGroup:
    """One group."""

    error_code: Int16 = 0
    error_message: NullableString = since(6, nullable=6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""  # The name of the protocol that was chosen.
    members: Array[DescribedGroupMember] = EMPTY
    authorized_operations: Int32 = since(3, default=-(2**31))  # The default: not requested.


@struct
class DescribedGroupMember:
    """One member; its metadata and assignment while the group is stable."""

    member_id: String = ""
    group_instance_id: NullableString = since(4, nullable=4, default=None)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""
