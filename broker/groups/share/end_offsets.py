"""Where partitions end for readers, for the lag of share groups: here, or by ListOffsets of the leaders elsewhere.

Administrators ask for it, seldom: a connection to another broker is made for one request, and closed after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.types import BrokerId, Offset, TopicPartition
from sordini.replication.partition import Partition
from sordini.replication.ports import BrokerLink, BrokerLinks, Spawn, Unreachable
from sordini.system.named_tuple import NamedTuple

LIST_OFFSETS_VERSION: Final = 5
"""All brokers of a cluster serve it."""
LATEST: Final = -1
CLIENT: Final = -1


class EndOffset(NamedTuple):
    """Where a partition ends for readers, or why that is not known."""

    error: ErrorCode
    offset: Offset | None = None


OnEnds = Callable[[Mapping[TopicPartition, EndOffset]], None]


class LocalReplicas(Protocol):
    """`ReplicaSet`."""

    def partition(self, topic: str, index: int) -> Partition: ...


class ClusterEndOffsets:
    """By partition, of leaders wherever they are."""

    def __init__(
        self,
        this_broker: BrokerId,
        replicas: LocalReplicas,
        metadata: MetadataCache,
        links: BrokerLinks,
        spawn: Spawn,
        timeout_ms: int,
    ) -> None:
        self._this_broker = this_broker
        self._replicas = replicas
        self._metadata = metadata
        self._links = links
        self._spawn = spawn
        self._timeout_ms = timeout_ms

    def read(self, partitions: Sequence[TopicPartition], on_done: OnEnds) -> None:
        """`on_done` is called once, with every partition: at once if all leaders are here."""
        found: dict[TopicPartition, EndOffset] = {}
        elsewhere: dict[BrokerId, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._leader_of(partition)
            if leader is None:
                found[partition] = EndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader == self._this_broker:
                found[partition] = self._read_here(partition)
            else:
                elsewhere.setdefault(leader, []).append(partition)
        if elsewhere:
            self._spawn(self._read_elsewhere(elsewhere, found, on_done))
        else:
            on_done(found)

    def _leader_of(self, partition: TopicPartition) -> BrokerId | None:
        known = self._metadata.topics.get(partition.topic)
        state = None if known is None else known.partitions.get(partition.partition)
        return None if state is None else state.leader

    def _read_here(self, partition: TopicPartition) -> EndOffset:
        try:
            leader = self._replicas.partition(partition.topic, partition.partition).require_leader()
        except BrokerError as error:
            return EndOffset(error.code)
        return EndOffset(ErrorCode.NONE, leader.high_watermark)

    async def _read_elsewhere(
        self,
        elsewhere: Mapping[BrokerId, list[TopicPartition]],
        found: dict[TopicPartition, EndOffset],
        on_done: OnEnds,
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            for broker_id, partitions in elsewhere.items():
                tasks.create_task(self._read_on(broker_id, partitions, found))
        on_done(found)

    async def _read_on(
        self, broker_id: BrokerId, partitions: list[TopicPartition], found: dict[TopicPartition, EndOffset]
    ) -> None:
        found.update(dict.fromkeys(partitions, EndOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        link: BrokerLink = self._links.link(broker_id, f"broker-{self._this_broker}-share-lag")
        try:
            response = await link.ask(_request(partitions), LIST_OFFSETS_VERSION, self._timeout_ms)
        except Unreachable:
            return
        finally:
            link.close()
        for topic in response.topics:
            for row in topic.partitions:
                end = EndOffset(ErrorCode(row.error_code), None if row.error_code else Offset(row.offset))
                found[TopicPartition(topic.name, row.partition_index)] = end


def _request(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    topics = [ListOffsetsTopic(name=name, partitions=rows) for name, rows in by_topic.items()]
    return ListOffsetsRequest(replica_id=CLIENT, topics=topics)
