"""DescribeGroupProgress: what groups have committed, and how fast they go on. Sordini's own request.

Apache Kafka has no such request: OffsetFetch has the offsets alone. It goes to the coordinator of the groups, which has
sampled its committed offsets every few seconds. Ages and windows are in milliseconds by the coordinator's clock.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, NullableString, String


@message(versions=range(1), flexible=0)
class DescribeGroupProgressRequest:
    """Groups of one coordinator."""

    groups: Array[String] = EMPTY


@message(versions=range(1), flexible=0)
class DescribeGroupProgressResponse:
    """Each group in the order of the request."""

    throttle_time_ms: Int32 = 0
    groups: Array[GroupProgressRow] = EMPTY


@struct
class GroupProgressRow:
    """One group."""

    group_id: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None
    topics: Array[GroupProgressTopic] = EMPTY


@struct
class GroupProgressTopic:
    """The partitions of a topic that have a committed offset of the group."""

    topic: String = ""
    partitions: Array[GroupProgressPartition] = EMPTY


@struct
class GroupProgressPartition:
    """A committed offset, and where it was a while ago."""

    partition_index: Int32 = 0
    committed_offset: Int64 = -1
    advanced: Int64 = 0  # Offsets, within the window.
    window_ms: Int32 = 0  # Up to a minute, less after a reset to an earlier offset; 0: not known yet.
    commit_age_ms: Int64 = -1  # Since the last commit, whether or not the offset advanced.
