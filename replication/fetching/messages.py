"""The requests of a follower: Fetch, OffsetForLeaderEpoch and ListOffsets. Pure.

Version 15 of Fetch moved the follower's id into a tagged field, beside its broker epoch (KIP-903).
"""

from __future__ import annotations

from collections.abc import Iterable

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
from sordini.system.named_tuple import NamedTuple

LATEST = -1
EARLIEST = -2
REPLICA_STATE_VERSION = 15


class FetchSettings(NamedTuple):
    """How a follower fetches. The keys, in the order of the fields:

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
    session_request: SessionRequest, replica_id: BrokerId, broker_epoch: int, settings: FetchSettings
) -> FetchRequest:
    """One request of a session; a request that closes the session does not wait for records."""
    request = FetchRequest(
        max_wait_ms=settings.wait_max_ms if session_request.epoch >= 0 else 0,
        min_bytes=settings.bytes_min,
        max_bytes=settings.response_bytes_max,
        session_id=session_request.session_id,
        session_epoch=session_request.epoch,
    )
    if session_request.version < REPLICA_STATE_VERSION:
        request.replica_id = replica_id
    else:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
    if session_request.to_send:
        request.topics = _topics(session_request.to_send, settings.partition_bytes_max)
    if session_request.to_forget:
        request.forgotten_topics_data = _forgotten(session_request.to_forget)
    return request


def _topics(to_send: Iterable[tuple[TopicIdPartition, FetchState]], bytes_max: int) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for partition, state in to_send:
        key = partition.topic, partition.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=partition.topic, topic_id=partition.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=state.leader_epoch,
                fetch_offset=state.fetch_offset,
                last_fetched_epoch=state.last_fetched_epoch,
                log_start_offset=state.log_start_offset,
                partition_max_bytes=bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[TopicIdPartition]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for partition in partitions:
        key = partition.topic, partition.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = ForgottenTopic(topic=partition.topic, topic_id=partition.topic_id, partitions=[])
        topic.partitions.append(partition.partition)
    return list(topics.values())


def epoch_ends_request(
    requests: Iterable[tuple[TopicIdPartition, EpochEndRequest]], replica_id: BrokerId
) -> OffsetForLeaderEpochRequest:
    """Where did these epochs end?"""
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for partition, request in requests:
        topics.setdefault(partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=request.leader_epoch,
                leader_epoch=request.requested_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=rows) for topic, rows in topics.items()],
    )


def offsets_request(
    partitions: Iterable[tuple[TopicIdPartition, LeaderEpoch]], timestamp: int, replica_id: BrokerId
) -> ListOffsetsRequest:
    """Where do these logs begin (EARLIEST) or end (LATEST), in the leader epoch given for each?"""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition, leader_epoch in partitions:
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(
        replica_id=replica_id,
        topics=[ListOffsetsTopic(name=topic, partitions=rows) for topic, rows in topics.items()],
    )
