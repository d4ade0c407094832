"""JoinGroup: a member takes part in the next generation of its group.

The response is sent when all members have joined; the leader's has the members' metadata. v1 sends the
rebalance timeout; v4 makes a new member join twice, first for its id (KIP-394); v5 has static members
(KIP-345); v6 is flexible; v7 returns the protocol type (KIP-559); v8 gives a reason (KIP-800); v9 lets a leader that
came back keep the assignment (KIP-814).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bool, Bytes, Int16, Int32, NullableString, String


@message(versions=range(10), flexible=6)
class JoinGroupRequest:
    """Who joins, and which protocols it can take part in."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1)  # v0: the session timeout.
    member_id: String = ""  # "": a newcomer.
    group_instance_id: NullableString = since(5, nullable=5, default=None)
    protocol_type: String = ""
    protocols: Array[JoinGroupRequestProtocol] = EMPTY
    reason: NullableString = since(8, nullable=8, default=None)


@struct
class JoinGroupRequestProtocol:
    """One protocol, with the member's metadata."""

    name: String = ""
    metadata: Bytes = b""


@message(versions=range(10), flexible=6)
class JoinGroupResponse:
    """The generation that has begun."""

    throttle_time_ms: Int32 = since(2, default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = since(7, nullable=7, default=None)
    protocol_name: NullableString = since(0, nullable=7, default="")
    leader: String = ""
    skip_assignment: Bool = since(9, default=False)
    member_id: String = ""
    members: Array[JoinGroupResponseMember] = EMPTY  # Empty but for the leader.


@struct
class JoinGroupResponseMember:
    """One member, as its leader sees it."""

    member_id: String = ""
    group_instance_id: NullableString = since(5, nullable=5, default=None)
    metadata: Bytes = b""
