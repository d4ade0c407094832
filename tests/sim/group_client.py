"""What members and administrators of simulated groups have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sordini.protocol.api import ApiKey
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.sim.client import Connection

TIMEOUT_S = 5.0


class TryAgain(Exception):  # noqa: N818 - not an error: the reason to begin anew.
    """The broker cannot answer this now, or not over this connection."""


async def partition_counts(connection: Connection, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of these topics has; one that is not led completely is asked for again later."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in sorted(topics)], allow_auto_topic_creation=False
    )
    async with asyncio.timeout(TIMEOUT_S):
        found: MetadataResponse = await connection.request(ApiKey.METADATA, 12, request)
    for topic in found.topics:
        if topic.error_code or any(partition.error_code for partition in topic.partitions):
            raise TryAgain(f"{topic.name} is not there yet")
    return {topic.name or "": len(topic.partitions) for topic in found.topics}
