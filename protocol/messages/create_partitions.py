"""CreatePartitions: give topics more partitions.

v1 answers before it throttles; v2 is flexible; v3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Int16, Int32, NullableArray, NullableString, String


@message(versions=range(4), flexible=2)
class CreatePartitionsRequest:
    """The topics that shall grow."""

    topics: Array[CreatePartitionsTopic] = EMPTY
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@struct
class CreatePartitionsTopic:
    """One topic and the number of partitions it shall have then."""

    name: String = ""
    count: Int32 = 0
    assignments: NullableArray[CreatePartitionsAssignment] = EMPTY  # None: the broker assigns replicas.


@struct
class CreatePartitionsAssignment:
    """Who shall hold one of the new partitions, the preferred leader first."""

    broker_ids: Array[Int32] = EMPTY


@message(versions=range(4), flexible=2)
class CreatePartitionsResponse:
    """The results of all topics."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = EMPTY


@struct
class CreatePartitionsTopicResult:
    """One topic that has grown, or why not."""

    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None
