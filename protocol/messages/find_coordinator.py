"""FindCoordinator: which broker coordinates a group or a transactional id.

v1 finds transaction coordinators too; v3 is flexible; v4 takes many keys (KIP-699); v5 knows
TRANSACTION_ABORTABLE (KIP-890); v6 finds share groups (KIP-932).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import Array, Int8, Int16, Int32, NullableString, String


@message(versions=range(7), flexible=3)
class FindCoordinatorRequest:
    """The groups or transactional ids."""

    key: String = until(3, default="")
    key_type: Int8 = since(1, default=0)  # 0: a group; 1: a transactional id; 2: a share group's partition.
    coordinator_keys: Array[String] = since(4, default=EMPTY)


@message(versions=range(7), flexible=3)
class FindCoordinatorResponse:
    """The coordinators: up to v3 the one, from v4 a list."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = until(3, default=0)
    error_message: NullableString = since(1, until=3, default="")
    node_id: Int32 = until(3, default=0)
    host: String = until(3, default="")
    port: Int32 = until(3, default=0)
    coordinators: Array[Coordinator] = since(4, default=EMPTY)


@struct
class Coordinator:
    """The coordinator of one key."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
