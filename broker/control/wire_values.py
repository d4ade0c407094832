"""What the three requests of the controller have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import Answer, PartitionInfo, StoppedReplica

LEADER_NONE: Final = -1
ANY_BROKER_EPOCH: Final = -1
"""As a broker epoch that is not told."""

Part = TypeVar("Part", PartitionInfo, StoppedReplica)
Row = TypeVar("Row")


def by_topic(parts: Iterable[Part], spelled: Callable[[Part], Row]) -> list[tuple[str, list[Part], list[Row]]]:
    """Partitions gathered by topic, and how each is spelled."""
    topics: dict[str, list[Part]] = {}
    for part in parts:
        topics.setdefault(part.topic_partition.topic, []).append(part)
    return [(topic, some, [spelled(part) for part in some]) for topic, some in topics.items()]


def code_of(answer: Answer, topic_partition: TopicPartition) -> int:
    """One partition's code: that of the whole, if the whole was refused."""
    return answer.error or answer.partitions.get(topic_partition, 0)


def leader_of(number: int) -> BrokerId | None:
    """A leader from its number on the wire, where a negative one is nobody."""
    return None if number < 0 else BrokerId(number)


def number_of(leader: BrokerId | None) -> int:
    """A leader as its number on the wire."""
    return LEADER_NONE if leader is None else leader


def brokers(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    """Brokers from their numbers."""
    return tuple(map(BrokerId, numbers))
