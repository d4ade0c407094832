"""InitializeShareGroupState: a share partition gets a state, from an offset on (KIP-932). Between brokers."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, Int64, NullableString, String, Uuid


@message(versions=range(1), flexible=0)
class InitializeShareGroupStateRequest:
    """Share partitions of one group."""

    group_id: String = ""
    topics: Array[InitializeStateData] = EMPTY


@struct
class InitializeStateData:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """One partition; a lower state epoch than the present one is refused."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0  # -1: the leader decides by share.auto.offset.reset.


@message(versions=range(1), flexible=0)
class InitializeShareGroupStateResponse:
    """One row for each."""

    results: Array[InitializeStateResult] = EMPTY


@struct
class InitializeStateResult:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionResult] = EMPTY


@struct
class PartitionResult:
    """One partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
