"""DescribeGroupHistory: the last rebalances of a group, as its coordinator remembers them. Sordini's own request.

Apache Kafka has no such request. Times are in milliseconds: `*_at_ms` since the epoch, others durations; -1 is unknown.
The numbers of causes are those of `broker/groups/machine/rebalance_cause.py`; a client shows those it does not know as
numbers. New fields come with new versions: v1 has what is known of consumer groups (KIP-848) only, and v2 that a group
is a share group (KIP-932).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bool, Int16, Int32, Int64, NullableString, String


@message(versions=range(3), flexible=0)
class DescribeGroupHistoryRequest:
    """One group."""

    group_id: String = ""
    rebalances_max: Int32 = -1  # The newest so many; -1 for all.


@message(versions=range(3), flexible=0)
class DescribeGroupHistoryResponse:
    """Its rebalances, oldest first. The last one is in progress if it has not ended."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    since_at_ms: Int64 = -1  # When this broker became the coordinator: older rebalances are not known to it.
    remembered_max: Int32 = 0  # The limit; 0 when the history is turned off.
    rebalances: Array[RebalanceRow] = EMPTY


@struct
class RebalanceRow:
    """One rebalance."""

    began_at_ms: Int64 = -1
    ended_at_ms: Int64 = -1
    duration_ms: Int64 = -1
    generation_before: Int32 = -1
    generation_after: Int32 = -1
    protocol_name: NullableString = None
    causes: Array[RebalanceCauseRow] = EMPTY
    causes_omitted: Int32 = 0
    members: Array[RebalanceMemberRow] = EMPTY
    members_omitted: Int32 = 0
    partitions_known: Bool = False  # Whether the assignments were a consumer's, and small enough to be compared.
    moves: Array[PartitionMoveRow] = EMPTY
    moves_omitted: Int32 = 0
    is_consumer: Bool = since(1, default=False)  # Of a consumer group: generations are assignment epochs.
    is_overtaken: Bool = since(1, default=False)  # The next target came before all members had reached this one.
    is_share: Bool = since(2, default=False)  # Of a share group: `is_consumer` is set, too. A move has one member only.


@struct
class RebalanceCauseRow:
    """Why a rebalance began, or what happened during it; the first one started it."""

    cause: Int16 = 0
    at_ms: Int64 = -1
    member_id: String = ""  # Empty for causes that are not a member's.
    group_instance_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    detail: String = ""  # What changed, or the reason that the client gave.


@struct
class RebalanceMemberRow:
    """A member of the generation that the rebalance ended with."""

    member_id: String = ""
    group_instance_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    partitions: Int32 = -1
    waited_ms: Int64 = -1  # From its JoinGroup to its assignment; in a consumer group from the beginning to its target.


@struct
class PartitionMoveRow:
    """A partition that has another member: their instance ids or member ids, null for none."""

    topic: String = ""
    partition: Int32 = 0
    source: NullableString = None
    target: NullableString = None
    released_at_ms: Int64 = since(1, default=-1)  # In a consumer group: when it had no owner any more.
    without_owner_ms: Int64 = since(1, default=-1)  # From then until it was given to `target`.
