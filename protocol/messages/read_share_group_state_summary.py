"""ReadShareGroupStateSummary: the start offsets of share partitions, for descriptions (KIP-932). Between brokers.

v1 counts the records that are done beyond the start offset.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, Int64, NullableString, String, Uuid


@message(versions=range(2), flexible=0)
class ReadShareGroupStateSummaryRequest:
    """Share partitions of one group."""

    group_id: String = ""
    topics: Array[ReadStateSummaryData] = EMPTY


@struct
class ReadStateSummaryData:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """One partition."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0


@message(versions=range(2), flexible=0)
class ReadShareGroupStateSummaryResponse:
    """One row for each."""

    results: Array[ReadStateSummaryResult] = EMPTY


@struct
class ReadStateSummaryResult:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionResult] = EMPTY


@struct
class PartitionResult:
    """One partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0  # -1: not decided yet.
    delivery_complete_count: Int32 = since(1, default=-1)  # -1: not known.
