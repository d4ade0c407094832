"""Values that the three requests of the controller have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import CommandAnswer, PartitionInfo, StoppedReplica

LEADER_NONE: Final = -1
ANY_BROKER_EPOCH: Final = -1
"""A broker epoch that the request does not carry."""

Part = TypeVar("Part", PartitionInfo, StoppedReplica)
Row = TypeVar("Row")


def by_topic(parts: Iterable[Part], encode: Callable[[Part], Row]) -> list[tuple[str, list[Part], list[Row]]]:
    """Partitions grouped by topic, each also in its wire form."""
    topics: dict[str, list[Part]] = {}
    for part in parts:
        topics.setdefault(part.topic_partition.topic, []).append(part)
    return [(topic, grouped, [encode(part) for part in grouped]) for topic, grouped in topics.items()]


def states_of(request: Any) -> list[tuple[str, TopicId, Any]]:
    """(topic, its id, state) of each partition, grouped by topic or, as in early versions, not."""
    ungrouped = [(state.topic_name, NO_TOPIC_ID, state) for state in request.ungrouped_partition_states]
    grouped = [
        (topic.topic_name, TopicId(topic.topic_id), state)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return ungrouped + grouped


def code_of(answer: CommandAnswer, topic_partition: TopicPartition) -> int:
    """One partition's code: that of the whole command, if that was refused."""
    return answer.error or answer.partitions.get(topic_partition, 0)


def leader_of(number: int) -> BrokerId | None:
    """A leader from its number on the wire; negative numbers stand for no leader."""
    return None if number < 0 else BrokerId(number)


def number_of(leader: BrokerId | None) -> int:
    """A leader as its number on the wire."""
    return LEADER_NONE if leader is None else leader


def brokers(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    """Broker ids from their numbers on the wire."""
    return tuple(map(BrokerId, numbers))
