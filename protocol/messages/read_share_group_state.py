"""ReadShareGroupState: the state of share partitions, for a leader that begins with them (KIP-932). Between brokers."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.messages.common import StateBatch
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, Int64, NullableString, String, Uuid


@message(versions=range(1), flexible=0)
class ReadShareGroupStateRequest:
    """Share partitions of one group."""

    group_id: String = ""
    topics: Array[ReadStateData] = EMPTY


@struct
class ReadStateData:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """One partition."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0  # A former one is refused from then on.


@message(versions=range(1), flexible=0)
class ReadShareGroupStateResponse:
    """One row for each."""

    results: Array[ReadStateResult] = EMPTY


@struct
class ReadStateResult:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionResult] = EMPTY


@struct
class PartitionResult:
    """The state of one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0  # -1: not decided yet.
    state_batches: Array[StateBatch] = EMPTY
