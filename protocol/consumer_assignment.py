"""A consumer's assignment, made by the group leader (ConsumerProtocolAssignment).

    int16 version | array of (string topic, array of int32 partition) | bytes of user data

Every version so far is the same; of a newer one these fields are read. A coordinator reads it where it needs to know
what members own: in a classic group that becomes a consumer group, and in histories of rebalances.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from sordini.protocol.codecs import EMPTY, NEVER, decode, encode, message, struct
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import Array, Int16, Int32, NullableBytes, String
from sordini.protocol.types import TopicPartition

NEWEST: Final = 3
_VERSION: Final = Struct(">h")


@message(versions=range(NEWEST + 1), flexible=NEVER)
class ConsumerAssignment:
    """What comes after the version."""

    topics: Array[TopicPartitions] = EMPTY
    user_data: NullableBytes = None


@message(versions=range(1), flexible=NEVER)
class _Partitions:
    """The version and the partitions, for readers that leave the rest alone."""

    version: Int16 = 0
    topics: Array[TopicPartitions] = EMPTY


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = EMPTY


def read_assignment(data: bytes) -> list[TopicPartition] | None:
    """The partitions in order; an empty list for an empty assignment, None if the bytes are not an assignment."""
    if not data:
        return []
    try:
        assigned, _ = decode(_Partitions, 0, memoryview(data))
    except WireError:
        return None
    return sorted(TopicPartition(row.topic, partition) for row in assigned.topics for partition in row.partitions)


def has_user_data(data: bytes) -> bool:
    """Whether an assignment has data of the assignor that only this assignor understands; false if it is none."""
    if len(data) < _VERSION.size:
        return False
    try:
        return bool(decode(ConsumerAssignment, 0, memoryview(data), _VERSION.size)[0].user_data)
    except WireError:
        return False


def written_assignment(version: int, partitions: Iterable[tuple[str, Iterable[int]]]) -> bytes:
    """An assignment without user data, in the version of the member's subscription."""
    version = min(version, NEWEST)
    rows = [TopicPartitions(topic=topic, partitions=sorted(assigned)) for topic, assigned in partitions]
    return _VERSION.pack(version) + encode(ConsumerAssignment(topics=rows), version)
