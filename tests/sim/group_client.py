"""What members and administrators of simulated groups have in common."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from sordini.protocol.types import TopicId
from tests.sim.client import Connection

TIMEOUT_S = 5.0


class Pace(NamedTuple):
    """How fast members live, in seconds. Their silences and pauses are parts of a session."""

    session_s: float = 10.0
    heartbeat_s: float = 3.0
    rebalance_s: float = 20.0
    """Two sessions: a member with a request in every session joins in time."""
    answer_s: float = 10.0
    """A client gives a connection up when its session would have ended."""
    join_s: float = 25.0
    """Until a classic member gives up a join: longer than a rebalance."""
    poll_s: float = 0.5
    metadata_s: float = 4.0
    backoff_s: float = 0.2


PACE = Pace()


@dataclasses.dataclass(frozen=True, slots=True)
class LifeRules:
    """What members of both protocols have in common."""

    group_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    commit_gap_s: float = 1.0
    change_gap_s: float = 15.0
    """Mean time between two disturbances: silence, vanishing, leaving."""
    pace: Pace = PACE


@dataclasses.dataclass(frozen=True, slots=True)
class MemberRules(LifeRules):
    """A member of the classic protocol. Versions 1 to 4 of JoinGroup have no instance ids; 0 has no rebalance timeout."""

    join_version: int = 9
    sync_version: int = 5
    commit_version: int = 8
    fetch_version: int = 8
    protocol: str = "eager"
    """The name of the assignment strategy."""
    is_mixed: bool = False
    """In a group with members of the consumer protocol."""
    reads: bool = False
    """It consumes its partitions and commits what it has read; else it commits offsets that were never there."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerMemberRules(LifeRules):
    """A member that speaks the consumer protocol (KIP-848)."""

    slow_revocation_chance: float = 0.2
    """How often giving partitions up takes several heartbeats."""
    names_itself_chance: float = 0.7
    """How often it says who it is when it fetches offsets."""


class TryAgain(Exception):
    """The broker cannot answer this now, or not over this connection."""


async def partition_counts(connection: Connection, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of these topics has; a topic with a leaderless partition is requested again later."""
    found = await _metadata(connection, topics)
    return {topic.name or "": len(topic.partitions) for topic in found.topics}


async def topic_names(connection: Connection, topics: Iterable[str]) -> dict[TopicId, str]:
    """The names of these topics by their ids."""
    found = await _metadata(connection, topics)
    return {TopicId(topic.topic_id): topic.name or "" for topic in found.topics}


async def _metadata(connection: Connection, topics: Iterable[str]) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in sorted(topics)], allow_auto_topic_creation=False
    )
    async with asyncio.timeout(TIMEOUT_S):
        found: MetadataResponse = await connection.request(ApiKey.METADATA, 12, request)
    for topic in found.topics:
        if topic.error_code or any(partition.error_code for partition in topic.partitions):
            raise TryAgain(f"{topic.name} is not there yet")
    return found
