"""Parts that more than one message carries."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, Int64, NullableString, String


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


@struct
class SharePartitionLeader:
    """The current leader of a partition, where a request of a share group was refused for it; else zeros."""

    leader_id: Int32 = 0  # -1: no leader is known.
    leader_epoch: Int32 = 0


NO_LEADER = SharePartitionLeader()
"""A default; no code changes it."""


@struct
class AcknowledgementBatch:
    """What became of records of a share group (KIP-932)."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0  # Inclusive.
    acknowledge_types: Array[Int8] = (
        EMPTY  # One for all, or one for each. 0: gap; 1: accept; 2: release; 3: reject; 4: renew.
    )


@struct
class StateBatch:
    """Records of a share partition that are in one state (KIP-932)."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0  # Inclusive.
    delivery_state: Int8 = 0  # 0: available; 2: acknowledged; 3: archiving; 4: archived. Acquired ones are not stored.
    delivery_count: Int16 = 0
