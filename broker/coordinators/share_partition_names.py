"""The name by which a share partition is coordinated: `group:topic id:partition` (KIP-932). Pure.

A group id may have colons; a topic id, in URL-safe base64, and a number have none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sordini.protocol.types import TopicId, topic_id_from_text, topic_id_text

NAMES_CACHED: Final = 4096
"""A leader names its share partitions again and again."""


@lru_cache(NAMES_CACHED)
def share_partition_name(group_id: str, topic_id: TopicId, partition: int) -> str:
    return f"{group_id}:{topic_id_text(topic_id)}:{partition}"


def read_share_partition_name(text: str) -> tuple[str, TopicId, int]:
    """The group id, the topic id and the partition. Raises ValueError."""
    group_id, topic_id, partition = text.rsplit(":", 2)
    if not group_id.strip():
        raise ValueError("the group id is empty")
    return group_id, topic_id_from_text(topic_id), int(partition)
