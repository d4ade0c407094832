"""LeaveGroup: members leave their group, or are removed from it.

v3 names many at once, by their ids or their instance ids (KIP-345); v4 is flexible; v5 gives reasons (KIP-800).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import Array, Int16, Int32, NullableString, String


@message(versions=range(6), flexible=4)
class LeaveGroupRequest:
    """Who leaves: up to v2 the one, from v3 a list."""

    group_id: String = ""
    member_id: String = until(2, default="")
    members: Array[MemberIdentity] = since(3, default=EMPTY)


@struct
class MemberIdentity:
    """A leaving member."""

    member_id: String = ""
    group_instance_id: NullableString = since(3, nullable=3, default=None)
    reason: NullableString = since(5, nullable=5, default=None)


@message(versions=range(6), flexible=4)
class LeaveGroupResponse:
    """The results."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    members: Array[MemberResponse] = since(3, default=EMPTY)


@struct
class MemberResponse:
    """A member that has left, or the error."""

    member_id: String = ""
    group_instance_id: NullableString = since(3, nullable=3, default="")
    error_code: Int16 = 0
