"""What a follower says to its leader, as messages: Fetch, OffsetForLeaderEpoch and ListOffsets. Pure.

Version 15 of Fetch moved the follower's id into a tagged field, beside its broker epoch (KIP-903).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sordini.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sordini.protocol.types import BrokerId, LeaderEpoch
from sordini.replication.fetching.session import FetchState, SessionRequest, TopicIdPartition
from sordini.replication.follower import EpochEndRequest

LATEST = -1
EARLIEST = -2
REPLICA_STATE_VERSION = 15


class FetchSettings(NamedTuple):
    """How a follower fetches; the keys of Apache Kafka's are in the order of the fields.

    replica.fetch.wait.max.ms, replica.fetch.min.bytes, replica.fetch.max.bytes (of one partition),
    replica.fetch.response.max.bytes, replica.fetch.backoff.ms, replica.socket.timeout.ms.
    """

    wait_max_ms: int = 500
    bytes_min: int = 1
    partition_bytes_max: int = 1_048_576
    response_bytes_max: int = 10_485_760
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000


def fetch_request(
    delta: SessionRequest, replica_id: BrokerId, broker_epoch: int, settings: FetchSettings
) -> FetchRequest:
    """One request of a session; the long poll's bounds are the settings'."""
    request = FetchRequest(
        max_wait_ms=settings.wait_max_ms if delta.epoch >= 0 else 0,
        min_bytes=settings.bytes_min,
        max_bytes=settings.response_bytes_max,
        session_id=delta.number,
        session_epoch=delta.epoch,
    )
    if delta.version < REPLICA_STATE_VERSION:
        request.replica_id = replica_id
    else:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
    if delta.wanted:
        request.topics = _topics(delta.wanted, settings.partition_bytes_max)
    if delta.forgotten:
        request.forgotten_topics_data = _forgotten(delta.forgotten)
    return request


def _topics(wanted: Iterable[tuple[TopicIdPartition, FetchState]], bytes_max: int) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for place, wish in wanted:
        key = place.topic, place.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=place.topic, topic_id=place.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=place.partition,
                current_leader_epoch=wish.leader_epoch,
                fetch_offset=wish.fetch_offset,
                last_fetched_epoch=wish.last_fetched_epoch,
                log_start_offset=wish.log_start_offset,
                partition_max_bytes=bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(places: Iterable[TopicIdPartition]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for place in places:
        key = place.topic, place.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = ForgottenTopic(topic=place.topic, topic_id=place.topic_id, partitions=[])
        topic.partitions.append(place.partition)
    return list(topics.values())


def epochs_request(
    questions: Iterable[tuple[TopicIdPartition, EpochEndRequest]], replica_id: BrokerId
) -> OffsetForLeaderEpochRequest:
    """Where did these epochs end?"""
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for place, question in questions:
        topics.setdefault(place.topic, []).append(
            OffsetForLeaderPartition(
                partition=place.partition,
                current_leader_epoch=question.leader_epoch,
                leader_epoch=question.requested_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=asked) for topic, asked in topics.items()],
    )


def offsets_request(
    places: Iterable[tuple[TopicIdPartition, LeaderEpoch]], timestamp: int, replica_id: BrokerId
) -> ListOffsetsRequest:
    """Where do these logs begin (EARLIEST) or end (LATEST), as the leader of this epoch has it?"""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for place, leader_epoch in places:
        topics.setdefault(place.topic, []).append(
            ListOffsetsPartition(
                partition_index=place.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(
        replica_id=replica_id,
        topics=[ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in topics.items()],
    )
