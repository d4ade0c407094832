"""AlterReplicaLogDirs: move replicas of a broker to other log directories of it (KIP-113).

v1 changes no field; v2 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int16, Int32, RowInt32, String


@message(versions=range(3), flexible=2)
class AlterReplicaLogDirsRequest:
    """What is wanted in which directory."""

    dirs: Array[AlterReplicaLogDir] = EMPTY


@struct
class AlterReplicaLogDir:
    """One directory, by its absolute path."""

    path: String = ""
    topics: Array[AlterReplicaLogDirTopic] = EMPTY


@struct
class AlterReplicaLogDirTopic:
    """The partitions of one topic to move there."""

    name: String = ""
    partitions: Array[RowInt32] = EMPTY


@message(versions=range(3), flexible=2)
class AlterReplicaLogDirsResponse:
    """The results of all partitions."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult] = EMPTY


@struct
class AlterReplicaLogDirTopicResult:
    """The partitions of one topic."""

    topic_name: String = ""
    partitions: Array[AlterReplicaLogDirPartitionResult] = EMPTY


@struct
class AlterReplicaLogDirPartitionResult:
    """One partition's error code; 0 is success."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
