"""What a group's leader assigned to one consumer: bytes that brokers pass on unread.

    int16 version | array of (string topic, array of int32 partition) | bytes for the consumer itself

Every version so far begins so; a newer one is read as far as that.
"""

from __future__ import annotations

from sordini.protocol.errors import WireError
from sordini.protocol.primitives import Array, Int16, Int32, String
from sordini.protocol.schema import EMPTY, NEVER, decode, message, struct
from sordini.protocol.types import TopicPartition


@message(versions=range(1), flexible=NEVER)
class ConsumerAssignment:
    """The version that was written, and the partitions; what follows is left unread."""

    version: Int16 = 0
    topics: Array[AssignedTopic] = EMPTY


@struct
class AssignedTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[Int32] = EMPTY


def read_assignment(data: bytes) -> list[TopicPartition] | None:
    """The partitions in order; none in an empty assignment, None when the bytes are something else."""
    if not data:
        return []
    try:
        assigned, _ = decode(ConsumerAssignment, 0, memoryview(data))
    except WireError:
        return None
    return sorted(TopicPartition(topic.name, partition) for topic in assigned.topics for partition in topic.partitions)
