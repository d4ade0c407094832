"""DeleteShareGroupState: the state of share partitions is forgotten (KIP-932). Between brokers."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, NullableString, String, Uuid


@message(versions=range(1), flexible=0)
class DeleteShareGroupStateRequest:
    """Share partitions of one group."""

    group_id: String = ""
    topics: Array[DeleteStateData] = EMPTY


@struct
class DeleteStateData:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """One partition."""

    partition: Int32 = 0


@message(versions=range(1), flexible=0)
class DeleteShareGroupStateResponse:
    """One row for each."""

    results: Array[DeleteStateResult] = EMPTY


@struct
class DeleteStateResult:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionResult] = EMPTY


@struct
class PartitionResult:
    """One partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
