"""Heartbeat: a member is alive, and learns whether its group is being rebalanced.

v3 has static members (KIP-345); v4 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import message, since
from sordini.protocol.primitives import Int16, Int32, NullableString, String


@message(versions=range(5), flexible=4)
class HeartbeatRequest:
    """Who is alive."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, nullable=3, default=None)


@message(versions=range(5), flexible=4)
class HeartbeatResponse:
    """Whether the generation still holds."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
