"""The internal topic __consumer_offsets, which keeps groups and their committed offsets."""

from __future__ import annotations

from typing import Final

from sordini.broker.configuration.keys.group_keys import GroupSettings
from sordini.broker.coordinators.internal_topic import InternalTopicSpec

OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_topic_spec(config: GroupSettings) -> InternalTopicSpec:
    return InternalTopicSpec(
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {"compression.type": "producer", "segment.bytes": str(config.offsets_topic_segment_bytes)},
    )
