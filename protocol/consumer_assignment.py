"""A consumer's assignment, made by the group leader (ConsumerProtocolAssignment). Brokers do not read it.

    int16 version | array of (string topic, array of int32 partition) | bytes of user data

Every version so far begins like this; of a newer version these fields are read.
"""

from __future__ import annotations

from sordini.protocol.errors import WireError
from sordini.protocol.primitives import Array, Int16, Int32, String
from sordini.protocol.schema import EMPTY, NEVER, decode, message, struct
from sordini.protocol.types import TopicPartition


@message(versions=range(1), flexible=NEVER)
class ConsumerAssignment:
    """The version and the partitions; the bytes after them are not read."""

    version: Int16 = 0
    topics: Array[AssignedTopic] = EMPTY


@struct
class AssignedTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[Int32] = EMPTY


def read_assignment(data: bytes) -> list[TopicPartition] | None:
    """The partitions in order; an empty list for an empty assignment, None if the bytes are not an assignment."""
    if not data:
        return []
    try:
        assigned, _ = decode(ConsumerAssignment, 0, memoryview(data))
    except WireError:
        return None
    return sorted(TopicPartition(topic.name, partition) for topic in assigned.topics for partition in topic.partitions)
