"""ListGroups: the groups this broker coordinates.

v3 is flexible; v4 filters by state (KIP-518), v5 by type (KIP-848).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int16, Int32, String


@message(versions=range(6), flexible=3)
class ListGroupsRequest:
    """Which groups; an empty filter lets all through."""

    states_filter: Array[String] = since(4, default=EMPTY)
    types_filter: Array[String] = since(5, default=EMPTY)


@message(versions=range(6), flexible=3)
class ListGroupsResponse:
    """The groups."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = EMPTY


@struct
class ListedGroup:
    """One group."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: String = since(4, default="")
    group_type: String = since(5, default="")
