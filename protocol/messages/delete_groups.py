"""DeleteGroups: forget groups that have no members, with all they have committed (KIP-229).

v2 is flexible; v3 adds a message to each group's error (KIP-1331).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int16, Int32, NullableString, String


@message(versions=range(4), flexible=2)
class DeleteGroupsRequest:
    """The groups to forget."""

    groups_names: Array[String] = EMPTY


@message(versions=range(4), flexible=2)
class DeleteGroupsResponse:
    """The results."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult] = EMPTY


@struct
class DeletableGroupResult:
    """One group that is gone, or why not."""

    group_id: String = ""
    error_code: Int16 = 0
    error_message: NullableString = since(3, default=None)  # None beside no error.
