"""Which partitions a user means. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sordini.protocol.types import TopicPartition

PartitionSelection = tuple[str, tuple[int, ...] | None]
"""A topic and the selected partitions; None is all."""


def selected_partitions(wanted: Iterable[PartitionSelection], counts: dict[str, int]) -> list[TopicPartition]:
    """The selected partitions, in order and without duplicates; `counts` has each topic's number of partitions."""
    found = dict.fromkeys(
        TopicPartition(topic, partition)
        for topic, partitions in wanted
        for partition in (range(counts[topic]) if partitions is None else partitions)
    )
    return list(found)
