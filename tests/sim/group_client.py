"""What members and administrators of simulated groups have in common."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable

from sordini.protocol.api import ApiKey
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.sim.client import Connection

TIMEOUT_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class MemberRules:
    """What kind of member this is. Versions 1 to 4 of JoinGroup have no instance ids; 0 has no rebalance timeout."""

    group_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    join_version: int = 9
    sync_version: int = 5
    commit_version: int = 8
    fetch_version: int = 8
    commit_gap_s: float = 1.0
    change_gap_s: float = 15.0
    """Mean time between two disturbances: silence, vanishing, leaving."""


class TryAgain(Exception):
    """The broker cannot answer this now, or not over this connection."""


async def partition_counts(connection: Connection, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of these topics has; a topic with a leaderless partition is requested again later."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in sorted(topics)], allow_auto_topic_creation=False
    )
    async with asyncio.timeout(TIMEOUT_S):
        found: MetadataResponse = await connection.request(ApiKey.METADATA, 12, request)
    for topic in found.topics:
        if topic.error_code or any(partition.error_code for partition in topic.partitions):
            raise TryAgain(f"{topic.name} is not there yet")
    return {topic.name or "": len(topic.partitions) for topic in found.topics}
