"""Parts that more than one message carries."""

from __future__ import annotations

from sordini.protocol.primitives import Int32, NullableString, String
from sordini.protocol.schema import struct


@struct
class LeaderIdAndEpoch:
    """The current leader, returned with NOT_LEADER_OR_FOLLOWER and similar errors (KIP-951)."""

    leader_id: Int32 = -1  # -1: no leader is known.
    leader_epoch: Int32 = -1


@struct
class NodeEndpoint:
    """Where a broker named in the response can be reached (KIP-951)."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
