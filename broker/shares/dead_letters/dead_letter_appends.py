"""Appends batches of dead letters to the leader of their partition: here, or on another broker by Produce (acks=all).

One request at a time goes to each other broker. Its leader authorizes it as any Produce: the brokers' principal needs
Write on the topic.
"""

from __future__ import annotations

import asyncio

from sordini.broker.coordinators.ports import Ports
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.acks import PartitionAppend, finish_appends
from sordini.replication.ports import BrokerLink, BrokerLinks, Unreachable
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

PRODUCE_VERSION = 8
"""The newest that brokers of Apache Kafka 2.7 serve, which may be in the cluster."""
TIMEOUT_MS = 30_000
"""How long an append may take to be committed, before the dead letters are written again."""
ALL_REPLICAS = -1


class _Row:
    """The append's error code, set by `replication/acks.py`."""

    __slots__ = ("error_code",)

    def __init__(self) -> None:
        self.error_code: int = ErrorCode.NONE


class DeadLetterAppends:
    """Appends to all dead-letter topics."""

    def __init__(
        self, this_broker: BrokerId, replicas: ReplicaSet, metadata: MetadataCache, links: BrokerLinks, ports: Ports
    ) -> None:
        self._this_broker = this_broker
        self._replicas = replicas
        self._metadata = metadata
        self._links = links
        self._ports = ports
        self._others: dict[BrokerId, tuple[BrokerLink, asyncio.Lock]] = {}

    async def append(self, target: TopicPartition, batch: bytes) -> None:
        """Returns when the batch is committed. Raises BrokerError; it may be committed all the same later."""
        partition = self._replicas.get(*target)
        if partition is not None and partition.leader is not None:
            await self._append_here(target, batch)
            return
        known = self._metadata.topics.get(target.topic)
        row = None if known is None else known.partitions.get(target.partition)
        if row is None or row.leader == self._this_broker or row.leader not in self._metadata.brokers:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{target} has no leader")
        await self._send(row.leader, target, batch)

    def close(self) -> None:
        """Close the connections to other brokers."""
        for link, _ in self._others.values():
            link.close()
        self._others.clear()

    async def _append_here(self, target: TopicPartition, batch: bytes) -> None:
        now_ms, row = self._ports.clock.now_ms(), _Row()
        try:
            partition = self._replicas.partition(*target)
            # As a leader elsewhere checks it: a compacted topic takes no record without a key.
            checked = check_produced(
                memoryview(bytearray(batch)), partition.settings.rules, now_ms, produce_version=PRODUCE_VERSION
            )
            end_offset = partition.append(checked, now_ms, all_replicas=True).end_offset
        except StorageError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        append = PartitionAppend(partition, partition.require_leader(), end_offset, row)
        unfinished = finish_appends([append], all_replicas=True)
        if unfinished is not None:
            await unfinished.wait(self._ports.call_later, TIMEOUT_MS)
        _check(target, row.error_code)

    async def _send(self, leader: BrokerId, target: TopicPartition, batch: bytes) -> None:
        if leader not in self._others:
            link = self._links.link(leader, f"broker-{self._this_broker}-dead-letters")
            self._others[leader] = link, asyncio.Lock()
        link, lock = self._others[leader]
        data = PartitionProduceData(index=target.partition, records=memoryview(batch))
        topic = TopicProduceData(name=target.topic, partition_data=[data])
        request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        try:
            async with lock:
                response: ProduceResponse = await link.ask(request, PRODUCE_VERSION, TIMEOUT_MS * 4 // 3)
        except Unreachable as failure:
            raise BrokerError(ErrorCode.NETWORK_EXCEPTION, str(failure)) from failure
        rows = [row for answered in response.responses for row in answered.partition_responses]
        _check(target, rows[0].error_code if rows else ErrorCode.UNKNOWN_SERVER_ERROR)


def _check(target: TopicPartition, code: int) -> None:
    if code == ErrorCode.NONE:
        return
    known = ErrorCode(code) if code in set(ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
    raise BrokerError(known, f"{target} answered {known.name}")
