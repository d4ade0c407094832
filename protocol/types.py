"""Types for numbers that must not be mixed up, shared by all layers.

An offset counts records in a partition, a position counts bytes in a file, and a size is a number of bytes.
Ranges are half-open everywhere: an `end_offset` is the first offset that is *not* included.
"""

from __future__ import annotations

import base64
from typing import NewType

from sordini.system.named_tuple import NamedTuple

Offset = NewType("Offset", int)
BrokerId = NewType("BrokerId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)

TopicId = NewType("TopicId", bytes)
"""Sixteen bytes that identify one incarnation of a topic: a topic created again has another id (KIP-516)."""

NO_TOPIC_ID = TopicId(bytes(16))


class TopicPartition(NamedTuple):
    """One partition of one topic; its text is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Render as Apache Kafka names the partition's directory: `orders-3`."""
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: TopicId) -> str:
    """The 22 characters by which a topic id is written in files and znodes (URL-safe base64, unpadded)."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_from_text(text: str) -> TopicId:
    """Read a topic id back from its 22 characters; raises ValueError when it is not one."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"a topic id has 16 bytes, {text!r} has {len(raw)}")
    return TopicId(raw)
