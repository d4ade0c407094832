"""DescribeLogDirs: a broker's log directories, what lies in them, and how full their disks are (KIP-113).

v1 answers before it throttles; v2 is flexible; v3 can return an error for the whole request; v4 returns
the sizes of the volumes (KIP-827); v5 returns whether a directory is cordoned, that is, gets no new partitions
(KIP-1066).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bool, Int16, Int32, Int64, NullableArray, RowInt32, String


@message(versions=range(6), flexible=2)
class DescribeLogDirsRequest:
    """The requested partitions."""

    topics: NullableArray[DescribableLogDirTopic] = EMPTY  # None: all.


@struct
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[RowInt32] = EMPTY


@message(versions=range(6), flexible=2)
class DescribeLogDirsResponse:
    """The log directories."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0)
    results: Array[DescribeLogDirsResult] = EMPTY


@struct
class DescribeLogDirsResult:
    """One directory, or why it cannot be described."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: Array[DescribeLogDirsTopic] = EMPTY
    total_bytes: Int64 = since(4, default=-1)
    usable_bytes: Int64 = since(4, default=-1)
    is_cordoned: Bool = since(5, default=False)


@struct
class DescribeLogDirsTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DescribeLogDirsPartition] = EMPTY


@struct
class DescribeLogDirsPartition:
    """One partition's log."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0  # Bytes of its segments.
    offset_lag: Int64 = 0  # How far it is behind the partition's high watermark, or what it is to replace.
    is_future_key: Bool = False  # It is being copied here from another directory.
